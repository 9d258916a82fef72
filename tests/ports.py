"""tests/ports.py: ports for the servers of tests. They lie below those that the kernel gives to whoever connects: between the
look and the server's bind no connection of another test takes one."""
import random
import socket

LOW = 10000


def is_free(port):
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as servers do: what is in TIME_WAIT is free
        try:
            s.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def free_port(neighbours=1):
    """The first of so many neighbouring ports that are free now."""
    with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as f:
        high = int(f.read().split()[0])
    assert high - LOW > 1000, f"the kernel gives connections the ports from {high} on: none are left for servers"
    while True:
        port = random.randrange(LOW, high - neighbours)
        if all(is_free(port + i) for i in range(neighbours)):
            return port
