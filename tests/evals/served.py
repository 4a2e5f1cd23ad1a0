"""A server in this process, for crowds."""

import asyncio
import os

from evals.crowd import Server
from evals.served import BenchDevice, Running
from tests.web.place import Place


def server_in(place: Place) -> Server:
    port = int(place.address.rpartition(":")[2])

    async def pair() -> BenchDevice:
        device = BenchDevice(port)
        await asyncio.to_thread(device.pair, place.code())
        return device

    return Server(Running(port, os.getpid()), place.core, pair)
