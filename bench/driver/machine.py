# SPDX-License-Identifier: MIT
"""Where a run was made: the machine, its software, and the backend libslub chose."""
import os
import platform
import re
import shutil
import subprocess


def read(path, otherwise=""):
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError:
        return otherwise


def _said(command, cwd=None):
    try:
        done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=20,
                              check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip()


def available_mib():
    found = re.search(r"^MemAvailable:\s+(\d+)", read("/proc/meminfo"), re.M)
    return int(found.group(1)) // 1024 if found else 0


def _chosen(path):
    found = re.search(r"\[(\w+)\]", read(path))
    return found.group(1) if found else "unknown"


def describe(root):
    cpuinfo, meminfo = read("/proc/cpuinfo"), read("/proc/meminfo")
    model = re.search(r"^model name\s*: (.*)$", cpuinfo, re.M)
    memory = re.search(r"^MemTotal:\s+(\d+)", meminfo, re.M)
    system = re.search(r'^PRETTY_NAME="?([^"\n]*)', read("/etc/os-release"), re.M)
    return {
        "processor": model.group(1) if model else platform.processor(),
        "cpus": len(os.sched_getaffinity(0)),
        "virtual": "hypervisor" in cpuinfo,
        "memory_mib": int(memory.group(1)) // 1024 if memory else 0,
        "kernel": platform.release(),
        "system": system.group(1) if system else "unknown",
        "libc": " ".join(platform.libc_ver()),
        "compiler": _said(["cc", "--version"]).split("\n", maxsplit=1)[0],
        "huge_pages": _chosen("/sys/kernel/mm/transparent_hugepage/enabled"),
        "governor": read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
                         "unknown").strip(),
        "load": os.getloadavg()[0],
        "tree": _said(["git", "describe", "--always", "--dirty"], cwd=root) or "no commit",
    }


def lacks(build):
    """What this machine does not have and figures are therefore without, with the reason."""
    missing = {}
    if len(os.sched_getaffinity(0)) < 2:
        missing["a second CPU"] = "threads take turns on one; nothing here shows how they collide"
    if _chosen("/sys/kernel/mm/transparent_hugepage/enabled") in ("never", "unknown"):
        missing["huge pages"] = "transparent huge pages are off or not there"
    free = shutil.disk_usage(build if os.path.exists(build) else "/").free >> 20
    if free < 2048:
        missing["disk"] = f"{free} MiB free; the peers' builds want 2,048"
    return missing


def lacks_rseq(allocator, check):
    """The same for restartable sequences: @check is what backend() said of an @allocator of ours
    that was free to choose."""
    found = re.search(r"^backend (?!rseq)(\w+)|; backend (?!rseq)(\w+)", check)
    if not found or allocator.env:
        return {}
    return {"restartable sequences": "the kernel or the C library has none for us; libslub ran on "
            f"backend {found.group(1) or found.group(2)}"}


def backend(allocator, checker, program):
    """What `slub check` says of a process on this libslub; '' where it cannot be asked."""
    if not os.path.exists(checker):
        return ""
    with subprocess.Popen([program, "--wait"], env=allocator.environment(),
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE) as waiting:
        waiting.stdout.read(1)
        said = _said([checker, "check", str(waiting.pid)])
        waiting.stdin.close()
        waiting.wait(timeout=20)
    return "; ".join(" ".join(line.split()) for line in said.split("\n")[1:])


def code_bytes(library):
    """The size of the code alone, as `size` counts it."""
    found = re.search(r"^\s*(\d+)", _said(["size", library]).split("\n", maxsplit=1)[-1])
    return int(found.group(1)) if found else None


def lines(machine):
    where = "virtual machine" if machine["virtual"] else "machine"
    return [
        f"{machine['processor']}, {machine['cpus']} CPUs, {machine['memory_mib'] / 1024:.0f} GiB, "
        f"{where}, governor {machine['governor']}",
        f"Linux {machine['kernel']}, {machine['system']}, {machine['libc']}, "
        f"{machine['compiler']}, huge pages {machine['huge_pages']}",
        f"libslub {machine['tree']}; load at the start {machine['load']:.2f}",
    ]
