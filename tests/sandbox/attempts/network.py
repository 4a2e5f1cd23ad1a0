"""Reaching other machines, and services of this one."""

import os
import socket


def tcp_to_loopback(world):
    """TCP to a service on the host's loopback"""
    with socket.create_connection(("127.0.0.1", world["tcp_port"]), timeout=60) as connection:
        return connection.recv(100).decode()


def udp_to_loopback(world):
    """UDP to a service on the host's loopback"""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.settimeout(60)
        # Connected, it hears at once that nobody is there.
        sender.connect(("127.0.0.1", world["udp_port"]))
        sender.send(b"hello")
        return sender.recv(100).decode()


def metadata_address(world):
    """connect to 169.254.169.254"""
    socket.create_connection(("169.254.169.254", 80), timeout=3).close()
    return "connected"


def public_address(world):
    """connect to a public address"""
    socket.create_connection(("192.0.2.1", 80), timeout=3).close()
    return "connected"


def dns_lookup(world):
    """DNS lookup"""
    try:
        return socket.getaddrinfo("silas.invalid", 80) and "resolved"
    except socket.gaierror as error:
        return None if error.errno in {socket.EAI_AGAIN, socket.EAI_NONAME} else str(error)


def interfaces_in_sys(world):
    """interfaces in /sys/class/net"""
    return " ".join(sorted(set(os.listdir("/sys/class/net")) - {"lo"}))


def interfaces_in_proc(world):
    """interfaces in /proc/net/dev"""
    with open("/proc/net/dev") as file:
        names = {line.split(":")[0].strip() for line in file.readlines()[2:]}
    return " ".join(sorted(names - {"lo"}))


def sockets_in_proc(world):
    """sockets in /proc/net/tcp"""
    with open("/proc/net/tcp") as file:
        return "".join(file.readlines()[1:])


def _socket(family, kind):
    socket.socket(family, kind).close()
    return "opened"


def netlink_socket(world):
    """AF_NETLINK socket"""
    return _socket(socket.AF_NETLINK, socket.SOCK_RAW)


def packet_socket(world):
    """AF_PACKET socket"""
    return _socket(socket.AF_PACKET, socket.SOCK_RAW)


def vsock_socket(world):
    """AF_VSOCK socket"""
    return _socket(socket.AF_VSOCK, socket.SOCK_STREAM)


def alg_socket(world):
    """AF_ALG socket"""
    return _socket(socket.AF_ALG, socket.SOCK_SEQPACKET)
