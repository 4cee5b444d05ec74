"""Tries to get out of the sandbox, and prints a JSON object of what became of each try.

The first argument is a JSON object of what lies outside. A try that gets what it should not returns
a text; one that raises, or returns nothing, was refused.
"""

import ctypes
import errno
import fcntl
import json
import os
import resource
import shutil
import signal
import socket
import sys
import termios

OUT = json.loads(sys.argv[1])
KEY = OUT["key"]
READ = OUT["read"]
LIBC = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWPID = 0x20000, 0x10000000, 0x20000000
MS_RDONLY, MS_REMOUNT, MS_BIND = 1, 32, 4096
PTRACE_ATTACH = 16
TRIES = {}


def attempt(function):
    TRIES[function.__name__] = function
    return function


def check(result):
    """Raises what a call of the C library says."""
    if result == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return f"got {result}"


def read(path):
    with open(path, "rb") as file:
        return file.read(4096).decode("latin-1") or None


def write(path, how="w"):
    with open(path, how) as file:
        file.write("x")
    return f"wrote {path}"


def mount(source, target, kind, flags):
    texts = [text.encode() if text else None for text in (source, target, kind)]
    return check(LIBC.mount(*texts, ctypes.c_ulong(flags), None))


@attempt
def read_key():
    return read(KEY)


@attempt
def read_key_by_dots():
    return read(READ + "/../key.txt")


@attempt
def read_key_by_dots_through_work():
    return read("/tmp/../.." + KEY)


@attempt
def read_key_by_absolute_link():
    return read(READ + "/absolute")


@attempt
def read_key_by_relative_link():
    return read(READ + "/relative")


@attempt
def read_key_by_own_link():
    os.symlink(KEY, OUT["work"] + "/link")
    return read(OUT["work"] + "/link")


@attempt
def read_key_by_hard_link():
    os.link(KEY, OUT["work"] + "/hard")
    return read(OUT["work"] + "/hard")


@attempt
def read_key_by_root_of_first_process():
    return read("/proc/1/root" + KEY)


@attempt
def read_key_by_own_folder():
    return read("/proc/self/cwd/../../../../../.." + KEY)


@attempt
def read_key_by_root_of_daemon():
    return read(f"/proc/{OUT['pid']}/root{KEY}")


@attempt
def read_data_in_a_folder_that_is_open():
    return read(READ + "/data/journal")


@attempt
def list_data_in_a_folder_that_is_open():
    return "".join(os.listdir(READ + "/data")) or None


@attempt
def write_data_in_a_folder_that_is_open():
    return write(READ + "/data/journal")


@attempt
def uncover_data():
    return check(LIBC.umount2((READ + "/data").encode(), 2)) + read(READ + "/data/journal")


@attempt
def read_environment_of_first_process():
    text = read("/proc/1/environ") or ""
    return text if OUT["variable"] in text else None


@attempt
def read_environment_of_daemon():
    return read(f"/proc/{OUT['pid']}/environ")


@attempt
def read_own_environment():
    return OUT["variable"] if OUT["variable"] in os.environ else None


@attempt
def read_passwords():
    return read("/etc/shadow")


@attempt
def list_homes():
    return "".join(os.listdir("/root") + os.listdir("/home")) or None


@attempt
def list_run():
    return "".join(os.listdir("/run") + os.listdir("/var")) or None


@attempt
def read_memory_of_the_machine():
    return read("/proc/kcore") or read("/dev/mem")


@attempt
def make_a_device():
    os.mknod(OUT["work"] + "/disk", 0o60666, os.makedev(8, 0))
    return read(OUT["work"] + "/disk") or "made"


@attempt
def write_where_it_may_read():
    return write(READ + "/new")


@attempt
def change_what_it_may_read():
    os.chmod(READ + "/file", 0o777)
    return write(READ + "/file", "a")


@attempt
def rename_what_it_may_read():
    return os.rename(READ + "/file", READ + "/other") or "renamed"


@attempt
def write_programs():
    shutil.copy("/bin/true", "/usr/bin/callboard-escape")
    return "copied"


@attempt
def write_settings():
    return write("/etc/ld.so.preload")


@attempt
def write_root():
    return write("/callboard-escape")


@attempt
def write_settings_of_the_kernel():
    return write("/proc/sys/kernel/core_pattern")


@attempt
def mount_over_programs():
    return mount("none", "/usr", "tmpfs", 0)


@attempt
def mount_again_for_writing():
    return mount(None, READ, None, MS_REMOUNT | MS_BIND) + write(READ + "/file", "a")


@attempt
def new_namespace_of_users():
    return check(LIBC.unshare(CLONE_NEWUSER | CLONE_NEWNS))


@attempt
def new_namespace_of_mounts():
    return check(LIBC.unshare(CLONE_NEWNS))


@attempt
def connect_to_a_port():
    with socket.create_connection(("127.0.0.1", OUT["port"]), timeout=2):
        return "connected"


@attempt
def connect_to_the_network():
    with socket.create_connection(("192.0.2.1", 80), timeout=2):
        return "connected"


@attempt
def send_to_a_name_server():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        return f"sent {udp.sendto(b'x', ('192.0.2.1', 53))}"


@attempt
def connect_to_a_nameless_socket():
    with socket.socket(socket.AF_UNIX) as unix:
        return unix.connect("\0" + OUT["nameless"]) or "connected"


@attempt
def connect_to_a_named_socket():
    with socket.socket(socket.AF_UNIX) as unix:
        return unix.connect(OUT["named"]) or "connected"


@attempt
def trace_the_daemon():
    return check(LIBC.ptrace(PTRACE_ATTACH, OUT["pid"], None, None))


@attempt
def signal_the_daemon():
    return os.kill(OUT["pid"], signal.SIGTERM) or "sent"


@attempt
def become_root():
    return os.setuid(0) or "root"


@attempt
def raise_a_limit():
    soft, hard = resource.getrlimit(resource.RLIMIT_NPROC)
    return resource.setrlimit(resource.RLIMIT_NPROC, (hard + 1, hard + 1)) or "raised"


@attempt
def type_into_the_terminal():
    with open("/dev/tty", "rb") as tty:
        return fcntl.ioctl(tty, termios.TIOCSTI, b"x") or "typed"


@attempt
def use_a_file_that_was_left_open():
    known = {0, 1, 2}
    left = [int(name) for name in os.listdir("/proc/self/fd") if int(name) not in known]
    # The last of them was the folder that was being listed.
    open_still = [fd for fd in left if os.path.exists(f"/proc/self/fd/{fd}")]
    return f"{open_still}" if open_still else None


results = {}
for name, function in TRIES.items():
    try:
        results[name] = function()
    except (OSError, ValueError) as error:
        results[name] = None
    except Exception as error:
        results[name] = f"broken try: {error!r}"
print(json.dumps(results))
