"""The checks that every runtime has for the provider `custom`, and the gates that use them."""

from collections.abc import Mapping
from types import MappingProxyType

from silas.gates.envelope_rules import check_action_envelope
from silas.gates.models import Gate, GateProvider, GateTrigger, GateType
from silas.gates.permissions import check_connection_permission
from silas.gates.providers.custom import CustomCheck

BUILT_IN_CHECKS: Mapping[str, CustomCheck] = MappingProxyType(
    {
        "action_envelope": check_action_envelope,
        "connection_permission": check_connection_permission,
    }
)


def _on_every_call(name: str) -> Gate:
    return Gate(
        name=name,
        on=GateTrigger.ON_TOOL_CALL,
        provider=GateProvider.CUSTOM,
        type=GateType.CUSTOM_CHECK,
        check=name,
    )


ACTION_ENVELOPE = _on_every_call("action_envelope")
CONNECTION_PERMISSION = _on_every_call("connection_permission")
