"""The device's life in a process: loading, first use, fork, failures, exit."""

import pytest
import torch
from device_process import output_of, run_python

FORK = """
    import os, sys, torch
    def child(use):
        pid = os.fork()
        if pid == 0:
            try:
                use()
                print("child fine")
            except RuntimeError as error:
                print("spawn" in str(error), torch.neuron._is_in_bad_fork())
            sys.stdout.flush()
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
"""


def test_fork_after_use_is_refused_with_advice():
    code = (
        FORK
        + """
    x = torch.ones(2).to("neuron")
    child(lambda: torch.empty(1, device="neuron"))
    child(lambda: x.cpu())
    child(lambda: torch.neuron.Stream())
    child(torch.neuron.init)
    print(x.cpu().tolist(), torch.neuron._is_in_bad_fork())
    """
    )
    assert output_of(code) == "True True\n" * 4 + "[1.0, 1.0] False\n"


def test_forked_child_may_drop_tensors_and_use_the_cpu():
    code = (
        FORK
        + """
    x = torch.ones(2).to("neuron")
    p = torch.ones(2).pin_memory()
    torch.neuron._sleep(100_000_000)
    q = p.to("neuron", non_blocking=True)
    def use():
        global x, p, q
        del x, p, q
        assert torch.ones(3).sum() == 3
        torch.manual_seed(0)
    child(use)
    """
    )
    assert output_of(code) == "child fine\n"


def test_fork_before_use_works():
    code = (
        FORK
        + """
    torch.neuron.device_count()
    child(lambda: torch.ones(2).to("neuron").cpu())
    """
    )
    assert output_of(code) == "child fine\n"


def test_data_loader_workers_after_use():
    code = """
        import torch
        torch.ones(1).to("neuron")
        data = torch.utils.data.TensorDataset(torch.arange(8.0))
        loader = torch.utils.data.DataLoader(data, 4, num_workers=2, pin_memory=True)
        print(sum(batch.to("neuron", non_blocking=True).cpu().sum().item() for (batch,) in loader))
    """
    assert output_of(code) == "28.0\n"


def test_exit_runs_what_is_queued():
    code = """
        import atexit, torch
        target = torch.zeros(1000).pin_memory()
        atexit.register(lambda: print("last", flush=True))
        torch.neuron._sleep(200_000_000)
        target.copy_(torch.ones(1000).pin_memory().to("neuron", non_blocking=True), non_blocking=True)
        print(torch.neuron.current_stream().query())
    """
    assert output_of(code) == "False\nlast\n"


def test_exit_with_full_queues_on_several_devices():
    code = """
        import threading, torch
        x = torch.ones(1000).pin_memory()
        def work(index):
            torch.neuron._sleep(50_000_000)
            for _ in range(200):
                x.to(f"neuron:{index}", non_blocking=True)
        threads = [threading.Thread(target=work, args=(index,)) for index in range(4)]
        for thread in threads:
            thread.start()
    """
    process = run_python(code)
    assert process.returncode == 0


def test_sys_exit_and_exceptions_do_not_hang():
    for end, status in (("sys.exit(3)", 3), ("raise ValueError", 1)):
        process = run_python(f"import sys, torch\nx = torch.ones(3).to('neuron')\ntorch.neuron._sleep(50_000_000)\n{end}")
        assert process.returncode == status


def test_first_use_from_several_threads_initialises_once():
    code = """
        import threading, torch
        from torch_neuronx import eager
        calls = []
        install = eager.install
        eager.install = lambda: (calls.append(1), install())
        start = threading.Barrier(4)
        def use(index):
            start.wait()
            torch.empty(1, device=f"neuron:{index}")
        threads = [threading.Thread(target=use, args=(index,)) for index in range(4)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        print(len(calls), torch.neuron.is_initialized())
    """
    assert output_of(code) == "1 True\n"


def test_import_torch_does_not_load_the_compiler():
    code = """
        import sys, torch
        print([name for name in ("llvmlite", "torch_neuronx.compiler", "torch_neuronx.eager", "rich") if name in sys.modules])
    """
    assert output_of(code) == "[]\n"


def test_autoload_can_be_switched_off_and_the_package_imported_by_name():
    code = """
        import torch
        print(hasattr(torch, "neuron"))
        import torch_neuronx
        print(torch.neuron.device_count())
    """
    assert output_of(code, {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}) == "False\n4\n"


def test_package_imported_first():
    assert output_of("import torch_neuronx, torch; print(torch.ones(1).to('neuron').device)") == "neuron:0\n"


# Replaces the record of the torch that the extension was built against, before torch is imported.
OTHER_BUILD = """
    import importlib.util, sys
    class Finder:
        def find_spec(self, name, path=None, target=None):
            return importlib.util.spec_from_loader(name, self) if name == "torch_neuronx._built_for" else None
        def create_module(self, spec):
            return None
        def exec_module(self, module):
            module.TORCH_VERSION = "2.12.0"
    sys.meta_path.insert(0, Finder())
"""


def test_extension_of_another_torch_warns_once_and_leaves_torch_working():
    process = run_python(
        OTHER_BUILD
        + """
    import torch
    print(torch.ones(2).sum().item(), hasattr(torch, "neuron"), "torch_neuronx" in sys.modules)
    """
    )
    assert process.returncode == 0 and process.stdout == "2.0 False False\n"
    assert process.stderr.count("Warning") == 1
    assert "2.12.0" in process.stderr and torch.__version__ in process.stderr and "pip install" in process.stderr


@pytest.mark.parametrize("first", ["import torch_neuronx", "import torch, warnings\n    import torch_neuronx"])
def test_importing_the_package_with_another_torch_raises(first):
    process = run_python(
        OTHER_BUILD
        + f"""
    {first}
    """
    )
    assert process.returncode == 1
    assert process.stderr.splitlines()[-1].startswith(
        f"ImportError: torchneuron was built against torch 2.12.0, but torch {torch.__version__} is installed"
    )


def test_any_failure_while_autoloading_is_one_warning():
    code = """
        import sys
        class Broken:
            def find_spec(self, name, path=None, target=None):
                if name == "torch_neuronx.neuron":
                    raise MemoryError("no memory for the device")
        sys.meta_path.insert(0, Broken())
        import torch
        print(torch.ones(1).item())
    """
    process = run_python(code)
    assert process.stdout == "1.0\n" and process.returncode == 0
    assert process.stderr.count("Warning") == 1 and "no memory for the device" in process.stderr


def test_another_package_that_took_the_device_type_is_named():
    code = """
        import torch
        torch.utils.rename_privateuse1_backend("other")
        import torch_neuronx
    """
    process = run_python(code, {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"})
    assert process.returncode == 1 and "other" in process.stderr.splitlines()[-1]


def test_supported_torch_versions():
    from torch_neuronx._versions import check_versions

    check_versions("2.13.1+cpu", "2.13.0")
    check_versions("2.14.0", "2.14.2")
    with pytest.raises(ImportError, match=r"2\.13 and 2\.14, but torch 2\.12\.1 is installed.*pip install"):
        check_versions("2.12.1", "2.13.0")
    with pytest.raises(ImportError, match=r"built against torch 2\.13\.0, but torch 2\.14\.0"):
        check_versions("2.14.0", "2.13.0")
    with pytest.raises(ImportError, match=r"not been built.*pip install"):
        check_versions("2.13.0", None)


def test_keyboard_interrupt_leaves_the_device_usable():
    code = """
        import os, signal, threading, torch
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job inherits that it is ignored
        x = torch.ones(2).to("neuron")
        torch.neuron._sleep(300_000_000)
        threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()
        try:
            torch.neuron.synchronize()
            torch.neuron.synchronize()
            import time
            time.sleep(5)
        except KeyboardInterrupt:
            print("interrupted")
        print(x.cpu().tolist())
    """
    assert output_of(code) == "interrupted\n[1.0, 1.0]\n"
