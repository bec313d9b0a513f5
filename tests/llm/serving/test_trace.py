"""Recorded requests: the columns of published traces, and files that are broken."""

from __future__ import annotations

import gzip

import pytest

from gambrel.errors import FileFormatError, InputError
from gambrel.llm.serving.trace import read_trace

PLAIN = "time,input,output\n0,10,2\n1.5,20,3\n"


def read(folder, text, name="t.csv", **more):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return list(read_trace(path, **more))


@pytest.mark.parametrize(
    "text",
    [
        PLAIN,
        "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,10,2\n"
        "2023-11-16 18:15:48.1805900,20,3\n",
        "TIMESTAMP,ContextTokens,GeneratedTokens\n2024-05-10 00:00:00.009930+00:00,10,2\n"
        "2024-05-10 00:00:01.509930+00:00,20,3\n",
        "request_id,request_type,application_id,arrival_timestamp,batch_size,prompt_size,"
        "token_size\n0,2,0,7.0,1,10,2\n1,2,0,8.5,1,20,3\n",
        "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
        "5,ChatGPT,10,2,12,API log\n6.5,GPT-4,20,3,23,API log\n",
        '{"timestamp": 0, "input_length": 10, "output_length": 2, "hash_ids": [0]}\n'
        '{"timestamp": 1500, "input_length": 20, "output_length": 3, "hash_ids": [1]}\n',
        '{"time": 3, "input": 10, "output": 2}\n\n{"time": 4.5, "input": 20, "output": 3}\n',
        gzip.compress(PLAIN.encode(), mtime=0),
        "\ufeff" + PLAIN,
    ],
    ids=["plain", "azure23", "azure24", "splitwise", "burstgpt", "mooncake", "json", "gz", "bom"],
)
def test_columns_of_published_traces(tmp_path, text):
    found = read(tmp_path, text)
    assert [f[1:] for f in found] == [(10, 2), (20, 3)]
    assert [f[0] for f in found] == pytest.approx([0, 1.5])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("time,input,output\n2,1,1\n1,1,1\n", "line 3: time '1' is before that of the request"),
        ("time,input,output\n-1,1,1\n", "line 2: time '-1' is negative"),
        ("time,input,output\n0,1,0\n", "line 2: 1 tokens in, 0 out: each is at least 1"),
        ("time,input,output\n0,-4,9\n", "line 2: -4 tokens in"),
        ("time,input,output\n0,x,9\n", "line 2: time '0', input 'x'"),
        ("time,input,output\nnan,5,9\n", "line 2: time 'nan' is not finite"),
        ("time,input,output\n0,5,9\ninf,5,9\n", "line 3: time 'inf' is not finite"),
        (
            "time,input,output\n0,900,200\n",
            "line 2: 900 tokens in [+] 200 out are more than the context of 1,000",
        ),
        ("time,input,output\n0,1,1\n\n1,1e400,1\n", "line 4: time '1', input '1e400'"),
    ],
)
def test_lines_that_cannot_be(tmp_path, text, said):
    with pytest.raises(InputError, match=said):
        read(tmp_path, text, longest=1000)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a,b,c\n1,2,3\n", "no column of time among"),
        ("time,output\n0,1\n", "no column of input among"),
        ("time,input,output\n", "no request in it"),
        ("", "the file is empty"),
        ("time,input,output\n0,1\n", "line 2: 2 columns, the header has 3"),
        (b"time,input,output\n\xff\xfe,1,1\n", "not a table of text"),
        (gzip.compress(PLAIN.encode(), mtime=0)[:-9], "not a table of text"),
        ('{"time": 0, "input": 1, "output": 1}\n{"time": 1}\n', "line 2: not an object like"),
        ('{"time": 0, "input": 1, "output": 1}\n{"time"\n', "line 2: not JSON"),
    ],
)
def test_files_that_are_broken(tmp_path, text, said):
    with pytest.raises(FileFormatError, match=said):
        read(tmp_path, text)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(FileFormatError, match="cannot be read"):
        list(read_trace(tmp_path / "none.csv"))
