"""The contract of the tools, as the registry has it: to be compared with the written one."""

from typing import Any

from silas.companions.tools.catalogue import companion_tools
from silas.companions.tools.registry import AgentToolRegistry, CompanionTool

SCHEMAS_FILE = "tool_schemas.json"


def contract_entry(registry: AgentToolRegistry, tool: CompanionTool) -> dict[str, Any]:
    """One tool, with the names that `docs/agent_tools/agent_tool_contract_spec.yaml` uses."""
    return {
        "name": tool.name,
        "version": tool.version,
        "description": tool.description,
        "capabilitiesRequired": sorted(tool.capabilities),
        "allowedWakeReasons": sorted(tool.allowed_wake_reasons),
        "inputSchemaRef": f"{SCHEMAS_FILE}#/{tool.arguments.__name__}",
        "outputSchemaRef": f"{SCHEMAS_FILE}#/{tool.output.__name__}",
        "idempotencyStrategy": tool.idempotency.value,
        "scopeRules": [each.value for each in tool.scope_rules],
        "sideEffects": {
            "entityTypes": list(tool.side_effects.entity_types),
            "notificationTokens": list(tool.side_effects.notification_tokens),
        },
        "riskLevel": registry.risk_of(tool).value,
        "previewOnly": tool.writes,
        "toolClass": tool.tool_class.value,
        "dataMinimizationPolicyRef": tool.data_minimization_policy_ref,
    }


def tool_schemas() -> dict[str, Any]:
    """The JSON Schema of every input and output, by the name of its model."""
    models = {
        model.__name__: model
        for tool in companion_tools().tools.values()
        if tool.offered
        for model in (tool.arguments, tool.output)
    }
    return {name: model.model_json_schema() for name, model in sorted(models.items())}
