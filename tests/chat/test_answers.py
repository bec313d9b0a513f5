"""Answers hold figures of their own command alone, and say what an expert would say."""

import json
import re
import shlex

import pytest

from gambrel.chat.answers.results import forget
from gambrel.chat.assistant.figures import known_in, unsupported
from gambrel.chat.repl import turn
from gambrel.chat.session import Conversation, render, to_data
from gambrel.cli import run
from gambrel.report.options import Options

CONTRACT = [
    "Is ResNet-50 compute-bound or memory-bound on an A100?",
    "Can ResNet-50 achieve 5ms latency on a Jetson Orin Nano?",
    "What's the best hardware for running YOLOv8n at 30fps with under 10W power?",
]
EXPERT = [
    "Is Llama-3-8B decode memory-bound on an H100 at batch 256?",
    "Is llama-3-8b memory bound on an h100?",
    "What is the ridge point of an H100?",
    "ridge point of a jetson agx orin 64gb in int8",
    "ridge point of the coral edge tpu",
    "arithmetic intensity of vgg16 on a t4 at batch 64",
    "How fast is ViT-B/16 on an L4 at batch 32?",
    "TTFT of llama-3-70b on an h200 with a 2048 token prompt",
    "tpot of llama-3-8b on an rtx 4090 with 8k context",
    "tokens per second of mixtral 8x7b on an mi300x at batch 8",
    "Does Llama-3-70B fit on an A100 80GB?",
    "does llama-3-70b fit on an h200 in fp8?",
    "how much energy does resnet50 take per image on an a100 at batch 64",
    "what power does yolov8n draw on a jetson orin nano",
    "what utilization does resnet50 reach on an h100 at batch 8",
    "mfu of llama-3-8b prefill on an a100",
    "which layers of resnet50 take longest on a t4",
    "why is mobilenet-v2 memory bound on an a100",
    "why is bert-base compute bound on a t4",
    "How can I speed up resnet50 on an a100?",
    "how can i speed up llama-3-8b decode on an h100",
    "what if resnet50 on an a100 ran in int8?",
    "effect of 4-bit weights on llama-3-8b decode on rtx 3090",
    "what would vit-b-16 on an l4 gain from fusion",
    "can yolov8n run at 30 fps on a coral edge tpu",
    "can llama-3-8b decode do 20 ms per token on an l4",
    "is a t4 enough for bert-base under 10 ms?",
    "resnet50: A100 vs H100 vs L4",
    "fp16 vs int8 for resnet50 on an l4",
    "which device runs bert-base under 5 ms below 75 W?",
    "which of t4, l4 and a10 does resnet50 in 1.5 ms?",
    "memory bandwidth of an a100 80gb",
    "how many flops does resnet50 have",
    "how fast is resnet50 on a gaudi 3",
    "how big is the kv cache of llama-3-70b at 32k context batch 16",
    "max batch for llama-3-8b on a 4090 at 8k context",
    "how many h200 for llama-3-70b with tpot under 30 ms",
    "what batch size saturates an h100 for resnet50",
    "at what batch does llama-3-8b decode become compute bound on an h100",
    "how much memory does llama-3-70b need in int4",
    "how fast is sdxl on an a100 with 30 steps",
    "how long to train llama-3.1-8b on 1T tokens with 64 h100",
    "fine-tune llama-3.1-8b on an a100",
]
HERE_ALONE = Options(width=200)


@pytest.fixture(autouse=True)
def _own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")


@pytest.mark.parametrize("question", [*CONTRACT, *EXPERT])
def test_the_commands_give_every_figure_again(question, capfd):
    reply = Conversation(options=HERE_ALONE).ask(question)
    assert reply.answers, reply.problem
    for found in reply.answers:
        known, said = [], ""
        for part in (parts := tuple(found.parts)):
            words = shlex.split(part.command_line)
            assert words[0] == "gambrel"
            capfd.readouterr()
            run([*words[1:], "--json"])
            known += known_in(json.loads(capfd.readouterr().out)) + known_in(part.data())
            run([*words[1:], "--verbose"])
            said += capfd.readouterr().out
        shown = set(re.findall(r"[\d.,]+\d|\d", said))
        for text in (part.sentence for part in parts):
            open_ = [n for n in unsupported(text, known, question) if n not in said]
            assert not [n for n in open_ if number_of(n) not in shown], text


@pytest.mark.parametrize("question", [*CONTRACT, *EXPERT, "help", "list models", "list devices"])
@pytest.mark.parametrize("width", [80, 120])
def test_a_reply_has_at_most_20_lines_of_the_width(question, width):
    options = Options(width=width)
    text = render(Conversation(options=options).ask(question), options)
    lines = text.rstrip("\n").split("\n")
    assert len(lines) <= 20, text
    assert all(len(line) <= width for line in lines if not line.startswith("Again: "))
    assert lines[-1].startswith("Again: ")


def number_of(text):
    return re.match(r"[-−]?([\d.,]+)", text).group(1)


_CONFIG = {
    "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336,
    "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
    "vocab_size": 128256, "torch_dtype": "bfloat16",
}  # fmt: skip


def test_ask_obeys_columns(capfd, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    capfd.readouterr()
    assert run(["ask", CONTRACT[0]]) == 0
    lines = capfd.readouterr().out.rstrip("\n").split("\n")
    assert len(lines) <= 24
    assert all(len(line) <= 60 for line in lines if not line.startswith("Again: "))


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ("how big is the kv cache of ./Mine/config.json at 32k", "4 GiB needed"),
        ("Is ./Mine/config.json decode memory-bound on an RTX 4090?", "memory-bound"),
        ("does Mine/config.json fit on an rtx 4090 at batch 1", "needs"),
    ],
)
def test_files_that_a_question_names_are_read(question, said, tmp_path):
    (tmp_path / "Mine").mkdir()
    (tmp_path / "Mine" / "config.json").write_text(json.dumps(_CONFIG))
    reply = Conversation(options=HERE_ALONE).ask(question)
    assert said in reply.answers[0].sentence
    assert "Mine/config.json" in reply.answers[0].command_line


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ("is ./gone.gguf memory bound on rtx 4090", "no such file"),
        ("is broken.json memory bound on rtx 4090", "broken.json"),
        ("how fast is evil.py:build on a t4", "did not understand 'evil.py:build'"),
    ],
)
def test_files_that_cannot_be_read_are_said(question, said, tmp_path):
    (tmp_path / "broken.json").write_text("{")
    (tmp_path / "evil.py").write_text("raise SystemExit('code ran')")
    reply = Conversation(options=HERE_ALONE).ask(question)
    assert said in reply.problem


@pytest.mark.parametrize("question", CONTRACT)
def test_json_is_that_of_the_command(question, capfd):
    data = to_data(Conversation().ask(question))
    assert data["question"] == question
    assert {"intent", "command", "answer", "result"} <= set(data)
    capfd.readouterr()
    run([*shlex.split(data["command"])[1:], "--json"])
    assert json.loads(capfd.readouterr().out) == data["result"]


def sentence(question):
    return " ".join(part.sentence for a in Conversation().ask(question).answers for part in a.parts)


def test_first_question_of_the_contract():
    text = " ".join(render(Conversation().ask(CONTRACT[0]), Options(width=100)).split())
    # 8.178 GFLOP over 210.9 MB; 312 TFLOP/s over 2.039 TB/s.
    for part in ("is memory-bound", "38.78 FLOP/byte", "ridge point of 153", "compute 24.7%",
                 "memory 97.6%", "In practice it is limited by the host", "under PyTorch eager",
                 "Recommendations", "gain per item", "runtime=tensorrt",
                 "Again: gambrel analyze resnet50 --hardware a100-sxm4-80gb --recommend",
                 ):  # fmt: skip
        assert part in text, part
    assert text.index("memory-bound") < text.index("In practice") < text.index("Recommendations")


def test_second_question_names_verdict_gap_and_what_closes_it():
    said = sentence(CONTRACT[1])
    assert said.startswith("Perhaps (MARGINAL)")
    assert "against ≤ 5 ms, 25% to spare" in said
    assert "with precision=int8" in said


@pytest.mark.parametrize(
    ("question", "said"),
    [
        (
            "can resnet50 do 1us on an h100",
            r"^No \(FAIL.* times too slow\. No change .* comes closest",
        ),
        ("can yolov8n do 10 us on an l4", r"^No \(FAIL.* times too slow"),
        ("can resnet50 do 60000 fps on an h100 in int8", r"^(Yes|Perhaps)"),
    ],
)
def test_a_verdict_names_the_gap_and_what_comes_closest(question, said):
    assert re.search(said, sentence(question))


def test_third_question_ranks_no_violator_above_a_device_that_meets_it():
    (found,) = Conversation().ask(CONTRACT[2]).answers
    ranks = {"PASS": 0, "MARGINAL": 0, "UNKNOWN": 1, "FAIL": 2}
    shown = [*found.record.meets, *found.record.unknown, *found.record.near]
    order = [ranks[c.verdict.value] for c in shown]
    assert order == sorted(order)


def test_a_comparison_says_why():
    said = sentence("Which is faster for resnet50, L4 or T4, and why?")
    assert said.startswith("Best latency first. resnet50 on l4")
    assert "Why l4: resnet50 on l4 is limited by compute" in said
    assert "300 GB/s" in said
    assert "320 GB/s" in said
    said = sentence("Is int8 faster than fp16 for resnet50 on an l4?")
    assert "resnet50 on l4 (int8) is limited by" in said
    assert "resnet50 on l4 (fp16) is limited by" in said
    assert "at unknown" not in sentence("Which microcontroller runs ds-cnn fastest?")


def test_devices_are_counted_for_users_and_their_rate():
    reply = Conversation().ask(
        "How many H100s for Llama-3-70B at 20 tokens per second per user for 100 users?"
    )
    (found,) = reply.answers
    assert "--tpot 50ms" in found.command_line
    assert "--concurrency 100" in found.command_line
    assert "x h100-sxm5-80gb serve" in found.sentence


def test_a_runtime_that_is_named_is_taken():
    said = sentence("how fast is resnet50 on an a100 under tensorrt")
    assert "under NVIDIA TensorRT: expected" in said


def test_a_language_model_has_two_answers_when_the_phase_is_open():
    reply = Conversation().ask("Is llama-3-8b memory bound on an h100?")
    prefill, decode = reply.answers
    assert "--phase prefill" in prefill.command_line
    assert "compute-bound" in prefill.sentence
    assert "--phase decode" in decode.command_line
    assert "memory-bound" in decode.sentence


def test_what_does_not_fit_is_said():
    assert "does NOT fit into the 80 GiB" in sentence("does llama-3-70b fit on an a100 80gb?")


def test_unknown_stays_unknown():
    said = sentence("how fast is resnet50 on a gaudi 3")
    assert "no expected time" in said


def test_sparse_ridge_point_is_named():
    said = sentence("ridge point of an h100")
    assert "295.3 FLOP/byte" in said
    assert "590.7 sparse" in said


def test_a_problem_of_the_model_is_a_sentence():
    reply = Conversation().ask("how fast is yolov8n at 100 px on an a100")
    assert not reply.answers
    assert "100" in reply.problem


@pytest.mark.parametrize("question", ["help", "explain ridge point", "list models", "list devices"])
def test_answers_without_a_model(question):
    reply = Conversation().ask(question)
    assert render(reply, Options())
    assert to_data(reply)["intent"]


def test_every_kind_of_question_has_an_example_that_is_understood():
    from gambrel.chat.frame import Understood
    from gambrel.chat.intents import INTENTS
    from gambrel.chat.understand import understand

    for intent in INTENTS.values():
        found = understand(intent.example)
        assert isinstance(found, Understood), intent.example
        assert found.frame.intent == intent.name


def test_every_term_is_found_by_each_of_its_names():
    from gambrel.chat.glossary import find_term, terms

    for term in terms().values():
        for name in (term.name, *term.also):
            assert find_term(f"what is {name}?") is term, name


def test_commands_of_the_glossary_run(capfd):
    from gambrel.chat.glossary import terms

    for see in {term.see for term in terms().values() if term.see}:
        assert run(shlex.split(see)[1:]) in {0, 1, 3}, see
        assert capfd.readouterr().out


def test_a_false_premise_is_corrected():
    said = sentence("why is vgg16 memory bound on a t4 at batch 64")
    assert said.startswith("It is not memory-bound here: ")
    assert "is compute-bound" in said
    assert not sentence("why is mobilenet-v2 memory bound on a t4").startswith("It is not")


def test_follow_ups_use_what_was_prepared_and_say_the_same():
    asked = [
        "best hardware for yolov8n at 30 fps under 10 W",
        "and under 15 W?",
        "Is ResNet-50 compute-bound or memory-bound on an A100?",
        "what should I change?",
    ]

    def told(each_afresh):
        session, found = Conversation(), []
        forget()
        for question in asked:
            if each_afresh:
                forget()
            found.append("\n".join(turn(session, question, session.options)))
        return found

    assert told(each_afresh=False) == told(each_afresh=True)


def said(question: str) -> str:
    """The answer in one line."""
    return " ".join(render(Conversation().ask(question), Options(width=100)).split())


def test_what_still_fits_leads_where_it_is_asked_for():
    reply = said("What is the max batch size of Llama 3 8B on an L40S at 4096 tokens?")
    assert reply.index("Room:") < reply.index("Cache:")
    assert reply.index("at most 56 sequences of 4,096 tokens") < reply.index("Memory:")


def test_tokens_that_are_assumed_fit_the_model():
    assert "1,024 tokens of sequence length assumed" in said(
        "How long does a training step of GPT-2 take on an A100 with batch 8?"
    )
    assert "1 x 1,024 tokens" in said("How big is the KV cache of gpt2?")
    assert "512 tokens of input assumed" in said("Can I serve gpt2 on an A100?")


def test_more_devices_are_named_where_one_does_not_do():
    reply = said("Can I serve llama-3-70b on an h100 with TPOT under 50 ms?")
    assert "no single device meets the target" in reply
    assert "'how many h100-sxm5-80gb for llama-3.1-70b ...'" in reply


def test_help_says_where_the_rest_is():
    assert "in 'gambrel chat'" in said("help")


@pytest.mark.parametrize(
    ("question", "said"),
    [
        (
            "speed of light of resnet50 on an l4",
            r"^resnet50, .* on NVIDIA L4: speed of light [\d.]+",
        ),
        ("ttft of llama-3-8b on 4 h100 sxm with 2048 tokens", r"^TTFT [\d.]+ m?s \("),
        (
            "ttft of llama-3-8b on an h100 with a 4k prompt",
            r"over the prompt\. Of a server, with no other request: TTFT [\d.]+ ms",
        ),
        ("how long is a training step of resnet50 on an l4", r"^resnet50, training step, batch 1"),
        ("can i train resnet50 on a hailo-8", r"hailo-8 is for inference: no software trains"),
        ("how fast is rtmdet on an l4", r"If it is a model, it is not built in"),
        ("resnet50 on an l4 took 5 ms", r"^resnet50 on l4.*: HEADROOM"),
    ],
)
def test_the_figure_that_is_asked_for_leads(question, said):
    answer = " ".join(run_turn(question).split())
    assert re.search(said, answer), answer


def run_turn(question):
    """The answer, or why there is none."""
    return "".join(turn(Conversation(), question, Options(width=200)))
