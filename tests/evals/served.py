"""A server in this process, for crowds."""

import asyncio
import os

from silas.evals.bench.web import Running
from silas.evals.bench.web_client import BenchDevice
from silas.evals.crowd.server import Server
from tests.web.place import Place


def server_in(place: Place) -> Server:
    port = int(place.address.rpartition(":")[2])

    async def pair() -> BenchDevice:
        device = BenchDevice(port)
        await asyncio.to_thread(device.pair, place.code())
        return device

    return Server(Running(port, os.getpid()), place.ground, pair)
