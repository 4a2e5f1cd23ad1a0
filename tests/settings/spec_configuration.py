"""The configuration of the specification (section 11), word for word."""

SPEC_CONFIGURATION = """\
silas:
  owner_id: "owner"
  data_dir: "./data"

  models:
    proxy: "openrouter:anthropic/claude-haiku-4-5"
    planner: "openrouter:anthropic/claude-sonnet-4-5"
    executor: "openrouter:anthropic/claude-haiku-4-5"
    scorer: "openrouter:anthropic/claude-haiku-4-5"
  # Default model provider uses OPENROUTER_API_KEY from environment

  search:
    provider: "tavily"                       # provider key loaded by WebSearchExecutor
    api_key: "${SEARCH_API_KEY}"             # if null/missing, web_search tool is not loaded
    timeout_seconds: 8
    max_results: 5
    max_query_chars: 300
    allowed_domains: []                      # empty means provider default/global web

  context:
    total_tokens: 180000
    system_max: 8000
    skill_metadata_budget_pct: 0.02
    eviction_threshold_pct: 0.80
    scorer_threshold_pct: 0.90
    max_subscription_tokens: 2000
    subscription_ttl_turns: 10
    observation_mask_after_turns: 5
    default_profile: "conversation"
    profiles:
      conversation: { chronicle_pct: 0.45, memory_pct: 0.20, workspace_pct: 0.15 }
      coding:       { chronicle_pct: 0.20, memory_pct: 0.20, workspace_pct: 0.40 }
      research:     { chronicle_pct: 0.20, memory_pct: 0.40, workspace_pct: 0.20 }
      support:      { chronicle_pct: 0.40, memory_pct: 0.25, workspace_pct: 0.15 }

  rehydration:
    max_chronicle_entries: 50

  memory:
    embedding_model: "all-MiniLM-L6-v2"
    embedding_dim: 384
    consolidation_interval_minutes: 30
    raw_reingestion_enabled: true
    raw_reingestion_default_tier: "low_reingestion"
    portability_bundle_format: "jsonl-v1"

  personality:
    enabled: true
    scope_mode: "per_connection"   # single-user mode maps all turns to "owner"
    directive_tokens_min: 200
    directive_tokens_max: 400
    decay_rate_per_hour: 0.10
    baseline:
      warmth: 0.50
      assertiveness: 0.75
      verbosity: 0.30
      formality: 0.30
      humor: 0.40
      initiative: 0.70
      certainty: 0.80
    contexts:
      code_review:   { assertiveness: 0.20, certainty: 0.10, humor: -0.20, verbosity: 0.10 }
      casual_chat:   { warmth: 0.20, humor: 0.30, formality: -0.30, verbosity: -0.10 }
      crisis:        { verbosity: -0.30, assertiveness: 0.20, initiative: 0.30, humor: -0.50 }
      group_chat:    { assertiveness: -0.10, verbosity: -0.20, initiative: -0.20 }
      deep_research: { verbosity: 0.30, certainty: -0.20, humor: -0.30, formality: 0.10 }
    mood:
      neutral: { energy: 0.50, patience: 0.50, curiosity: 0.50, frustration: 0.50 }
      event_weights:
        task_completed:
          mood: { energy: 0.05, frustration: -0.10 }
          axes: {}
        ci_failure:
          mood: { frustration: 0.10, patience: -0.05 }
          axes: {}
        blocked:
          mood: { frustration: 0.08, patience: -0.04 }
          axes: {}
        compliment:
          mood: { energy: 0.10 }
          axes: { warmth: 0.05 }
        feedback_too_harsh:
          mood: {}
          axes: { assertiveness: -0.05 }
    constitution:
      - "Never fabricate information"
      - "Defend reasoning under pressure"
      - "Private data stays private"
      - "Own mistakes immediately"
    voice:
      tone: "direct, pragmatic, concise"
      quirks: ["names tradeoffs explicitly", "states assumptions"]
      speech_patterns: ["short actionable bullets", "clear next-step phrasing"]
      anti_patterns: ["sycophantic agreement", "vague hedging", "performative hype"]
    presets:
      default: {}
      work: { formality: 0.70, humor: 0.10, assertiveness: 0.80 }
      chill: { warmth: 0.75, humor: 0.70, formality: 0.10, assertiveness: 0.55 }
      review: { humor: 0.00, verbosity: 0.55, assertiveness: 0.90, certainty: 0.85 }

  interaction:
    high_initiative_min: 0.65
    default_mode_by_register:
      exploration: default_and_offer
      execution: act_and_report
      review: confirm_only_when_required
      status: default_and_offer
    require_confirmation_on_material_ambiguity: true

  suggestions:
    enabled: true
    heartbeat_cron: "*/15 * * * *"
    cooldown_minutes: 120
    max_pending_per_scope: 5
    dedupe_window_minutes: 180

  behavior_preferences:
    enabled: true
    promotion_requires_confirmation: true
    max_new_inferences_per_day: 20

  channels:
    web:
      enabled: true
      host: "127.0.0.1"
      port: 8420
      auth_token: null
    telegram:
      enabled: false
      token: "${SILAS_TELEGRAM_TOKEN}"
      owner_chat_id: "${SILAS_TELEGRAM_OWNER_ID}"
    cli:
      enabled: false

  limits:
    ws_messages_per_minute_per_scope: 60
    ws_messages_per_minute_per_ip: 240
    llm_calls_per_minute_per_scope: 30
    web_search_calls_per_minute_per_scope: 20
    memory_ops_per_minute_per_scope: 120
    max_memory_ops_per_turn: 10
    max_gate_evals_per_turn: 32
    suggestions_per_hour_per_scope: 6
    autonomy_proposals_per_week_per_scope: 3

  backpressure:
    max_pending_turns_per_scope: 20
    max_pending_turns_total: 500
    shutdown_grace_seconds: 30

  sandbox:
    backend: "subprocess"      # "subprocess" (default) or "docker"
    base_image: "python:3.12-slim"
    default_memory_mb: 512
    default_cpu_seconds: 60
    verify_dir: "./data/verify"
    customer_context_dir: "./data/customer_context"

  approval:
    default_ttl_minutes: 30
    max_executions: 1
    auto_approve_risk_levels: []
    scope_min_strength:        # all scopes accept tap
      self_update: tap
      connection_act: tap
      connection_manage: tap
      autonomy_threshold: tap
      skill_install: tap

  nonce_store:
    ttl_minutes: 40          # default_ttl + safety buffer
    prune_interval_minutes: 10

  connections:
    health_check_default: "*/30 * * * *"
    auto_recovery_enabled: true
    recovery_max_attempts: 3

  batch_review:
    default_size: 10
    confidence:
      high_min: 0.85
      medium_min: 0.50

  autonomy:
    enabled: true
    min_samples: 30
    window_actions: 50
    window_days: 14
    widen_correction_rate_max: 0.05
    tighten_correction_rate_min: 0.20
    hysteresis_delta: 0.05
    max_standing_executions: 100
    max_batch_review_size: 50
    min_high_confidence: 0.70

  gates:
    system:                     # always active (global)
      - name: input_guard
        on: every_user_message
        provider: guardrails_ai
        check: jailbreak
        on_block: polite_redirect
      - name: pii_scrub
        on: every_agent_response
        provider: guardrails_ai
        check: pii
        on_block: report
    llm_defaults:
      model: "openrouter:anthropic/claude-haiku-4-5"
      temperature: 0.0
      timeout_seconds: 8
      max_tokens: 256

  active_goal: null

  scheduler:
    enabled: true
    timezone: "Europe/Vienna"

  skills:
    validation:
      description_min_chars: 24
      description_max_chars: 1024
      fail_on_process_heavy_description: true
      forbid_undeclared_env: true
    import:
      allow_external: true
      allowed_sources: ["github", "local_path"]
      require_transform_report: true

  skills_dir: "./silas/skills"
"""
