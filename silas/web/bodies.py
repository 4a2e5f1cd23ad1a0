"""What a request to the API may say."""

from pydantic import ConfigDict

from silas.kernel.models import Data


class Body(Data):
    """The body of a request. FastAPI wants its schema as soon as there is a route for it."""

    model_config = ConfigDict(defer_build=False)
