"""A trace of a GPU as Kineto records it, read by torch's own code.

Times are nanoseconds. A call has a correlation id; what the runtime and the device did for it carry
that id as the linked one.
"""

from types import SimpleNamespace

from torch.autograd import DeviceType
from torch.autograd.profiler import profile
from torch.autograd.profiler_util import EventList


class KinetoEvent:
    """What torch asks of an event; everything unsaid is empty."""

    def __init__(self, **said):
        self._said = said

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        value = self._said.get(name, EMPTY.get(name, 0))
        return lambda: value


EMPTY = {
    "name": "",
    "overload_name": "",
    "shapes": [],
    "concrete_inputs": [],
    "kwinputs": {},
    "stack": [],
    "is_async": False,
    "is_user_annotation": False,
    "is_python_function": False,
    "is_hidden_event": False,
    "activity_type": "",
    "metadata_json": "",
    "extra_meta": {},
    "structured_input_shapes": [],
    "structured_input_strides": [],
    "dtypes": [],
    "flow_start": False,
    "sequence_nr": -1,
}


class Trace:
    """Builds a trace of several threads and streams."""

    def __init__(self):
        self.events = []
        self._next = 1

    def call(self, name, start, end, *, thread=1, scope=0):
        """A call of the framework; returns its correlation id."""
        number, self._next = self._next, self._next + 1
        self._host(name, start, end, thread, correlation_id=number, scope=scope)
        return number

    def mark(self, name, start, end, *, thread=1, on_device=None):
        """What a program marks; the device shows it too, from the first kernel to the last."""
        number = self.call(name, start, end, thread=thread, scope=7)
        self.events[-1]._said.update(is_user_annotation=True, activity_type="user_annotation")
        if on_device:
            begin, stop, linked = on_device
            self._device(name, begin, stop, number if linked else 0, is_user_annotation=True)
        return number

    def launch(self, call, start, *, thread=99, name="cudaLaunchKernel"):
        """The runtime's call, which Kineto has under another thread's number."""
        self._host(name, start, start + 2_000, thread, linked_correlation_id=call)

    def kernel(self, name, start, end, call, *, stream=7):
        """On the device, for a call; 0 for none."""
        self._device(name, start, end, call, device_resource_id=stream)

    def _host(self, name, start, end, thread, **more):
        device = DeviceType.CPU
        self._add(name, start, end, device, start_thread_id=thread, end_thread_id=thread, **more)

    def _device(self, name, start, end, call, **more):
        self._add(name, start, end, DeviceType.CUDA, linked_correlation_id=call, **more)

    def _add(self, name, start, end, device, **more):
        said = {"name": name, "start_ns": start, "end_ns": end, "device_type": device}
        self.events.append(KinetoEvent(**said, **more))

    def read(self):
        """The function events, as ``profiler.events()`` gives them."""
        result = SimpleNamespace(
            events=lambda: self.events, trace_start_ns=lambda: 0, experimental_event_tree=list
        )
        owner = SimpleNamespace(use_device="cuda", profile_memory=False, with_flops=False)
        owner.kineto_results = result
        found = EventList(profile._parse_kineto_results(owner, result), use_device="cuda")
        found._build_tree()
        return found
