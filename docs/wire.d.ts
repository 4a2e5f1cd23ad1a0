// What travels between the page and Silas. Generated; silas/web/wire.py is the source.
export type Accepted = {
  type: "accepted";
  message_id: string;
  trace_id: string;
};
export type ActionShown = {
  value: string;
  label: string;
};
export type Activity = {
  type: "activity";
  entries: (ActivityEntry)[];
};
export type ActivityEntry = {
  seq: number;
  at: string;
  event: string;
  text: string;
  tone?: "good" | "bad" | "";
  times?: number;
  work_item_id?: string | null;
  card_id?: string | null;
};
export type ActivityRequest = {
  type: "activity_request";
  count?: number;
};
export type Answering = {
  type: "answering";
  trace_id: string;
  stage: string;
  words: string;
  note: string;
  seconds: number;
  over: boolean;
};
export type ApprovalRequest = {
  type: "approval_request";
  kind?: "plan" | "call" | "result";
  request_id: string;
  title: string;
  body: string;
  risk_level: RiskLevel;
  rationale: string;
  steps: ("tap" | "confirm" | "slide" | "strong_auth")[];
  details_expanded: boolean;
  consequences: Record<string, string>;
  items: (PlanShown)[];
  budget: Record<string, any>;
  verify: (Record<string, any>)[];
  taint: string;
  sources?: (string)[];
  trace_id: string;
  state: string;
  created_at: string;
  expires_at: string;
  notes?: Record<string, string>;
  preview?: PlanPreview;
  refusal?: string;
  replaces?: string | null;
};
export type ApprovalResponse = {
  type: "approval_response";
  request_id: string;
  verdict: "approved" | "declined" | "edit_requested";
  signature: string;
  strength?: "tap" | "slide" | "passkey";
  passkey?: Assertion | null;
  chosen?: (string)[] | null;
  changes?: string;
};
export type Assertion = {
  credential_id: string;
  client_data: string;
  authenticator_data: string;
  signature: string;
};
export type Attached = {
  sha256: string;
  name: string;
};
export type Attention = {
  type: "attention";
  crowded?: boolean;
  hasty?: boolean;
};
export type Auth = {
  type: "auth";
  device_id?: string | null;
  signature?: string | null;
  token?: string | null;
  delivery?: number;
  said?: number;
};
export type AutonomyThresholdResponse = {
  request_id: string;
  signature: string;
  strength?: "tap" | "slide" | "passkey";
  passkey?: Assertion | null;
  type: "autonomy_threshold_response";
  verdict: "approve" | "decline" | "tighten_now";
};
export type AutonomyThresholdReview = {
  request_id: string;
  title: string;
  risk_level: RiskLevel;
  rationale: string;
  steps: ("tap" | "confirm" | "slide" | "strong_auth")[];
  details_expanded: boolean;
  actions: (ActionShown)[];
  shown: PlanShown;
  taint: string;
  trace_id: string;
  state: string;
  created_at: string;
  expires_at: string;
  type: "autonomy_threshold_review";
  proposal: Record<string, any>;
};
export type BatchReview = {
  request_id: string;
  title: string;
  risk_level: RiskLevel;
  rationale: string;
  steps: ("tap" | "confirm" | "slide" | "strong_auth")[];
  details_expanded: boolean;
  actions: (ActionShown)[];
  shown: PlanShown;
  taint: string;
  trace_id: string;
  state: string;
  created_at: string;
  expires_at: string;
  type: "batch_review";
  batch: Record<string, any>;
};
export type BatchReviewResponse = {
  request_id: string;
  signature: string;
  strength?: "tap" | "slide" | "passkey";
  passkey?: Assertion | null;
  type: "batch_review_response";
  verdict: "approve" | "decline" | "edit_selection";
  selected_item_ids?: (string)[];
};
export type CardClosed = {
  type: "card_closed";
  request_id: string;
  state: string;
};
export type ChangeKind = "added" | "changed" | "removed";
export type CheckShown = {
  name: string;
  passed: boolean | null;
  reason?: string;
  outcome?: string;
};
export type CheckpointQuestion = {
  type: "checkpoint";
  request_id: string;
  message: string;
  options: (string)[];
};
export type CheckpointResponse = {
  type: "checkpoint";
  request_id: string;
  verdict: string;
};
export type CompanionAnswering = {
  type: "companion_answering";
  agent_id: string;
  run_key: string;
  text: string;
};
export type CompanionsChanged = {
  type: "companions_changed";
};
export type ConnectionFailure = {
  request_id: string;
  title: string;
  risk_level: RiskLevel;
  rationale: string;
  steps: ("tap" | "confirm" | "slide" | "strong_auth")[];
  details_expanded: boolean;
  actions: (ActionShown)[];
  shown: PlanShown;
  taint: string;
  trace_id: string;
  state: string;
  created_at: string;
  expires_at: string;
  type: "connection_failure";
  failure_type: string;
  service: string;
  message: string;
  draft?: string;
  recovery_options: (Record<string, any>)[];
};
export type ConnectionFailureResponse = {
  request_id: string;
  signature: string;
  strength?: "tap" | "slide" | "passkey";
  passkey?: Assertion | null;
  type: "connection_failure_response";
  selected_action: string;
};
export type ConnectionSetupResponse = {
  request_id: string;
  signature: string;
  strength?: "tap" | "slide" | "passkey";
  passkey?: Assertion | null;
  type: "connection_setup_response";
  step_type: string;
  action: "done" | "cancel" | "trouble" | "retry";
};
export type ConnectionSetupStep = {
  request_id: string;
  title: string;
  risk_level: RiskLevel;
  rationale: string;
  steps: ("tap" | "confirm" | "slide" | "strong_auth")[];
  details_expanded: boolean;
  actions: (ActionShown)[];
  shown: PlanShown;
  taint: string;
  trace_id: string;
  state: string;
  created_at: string;
  expires_at: string;
  type: "connection_setup_step";
  step_type: string;
  fields: Record<string, any>;
};
export type ConnectionsChanged = {
  type: "connections_changed";
};
export type ConversationLine = {
  conversation: string;
  title: string;
  first_words: string;
  created_at: string;
  used_at: string;
  archived: boolean;
};
export type Conversations = {
  type: "conversations";
  conversations: (ConversationLine)[];
};
export type Decision = {
  request_id: string;
  title: string;
  risk_level: RiskLevel;
  rationale: string;
  steps: ("tap" | "confirm" | "slide" | "strong_auth")[];
  details_expanded: boolean;
  actions: (ActionShown)[];
  shown: PlanShown;
  taint: string;
  trace_id: string;
  state: string;
  created_at: string;
  expires_at: string;
  type: "decision";
  question: string;
  options: (Record<string, any>)[];
  allow_freetext: boolean;
};
export type DecisionResponse = {
  request_id: string;
  signature: string;
  strength?: "tap" | "slide" | "passkey";
  passkey?: Assertion | null;
  type: "decision_response";
  selected_value?: string | null;
  freetext?: string | null;
};
export type DraftReview = {
  request_id: string;
  title: string;
  risk_level: RiskLevel;
  rationale: string;
  steps: ("tap" | "confirm" | "slide" | "strong_auth")[];
  details_expanded: boolean;
  actions: (ActionShown)[];
  shown: PlanShown;
  taint: string;
  trace_id: string;
  state: string;
  created_at: string;
  expires_at: string;
  type: "draft_review";
  context: string;
  draft: string;
  metadata: Record<string, any>;
};
export type DraftReviewResponse = {
  request_id: string;
  signature: string;
  strength?: "tap" | "slide" | "passkey";
  passkey?: Assertion | null;
  type: "draft_review_response";
  verdict: "approve" | "edit" | "rephrase" | "reject";
  edited_text?: string | null;
  words?: string | null;
};
export type Failed = {
  type: "error";
  code: string;
  message: string;
  about?: string | null;
  retry_after?: number | null;
};
export type FileAttached = {
  sha256: string;
  name: string;
  kind: FileKind;
  size: number;
};
export type FileKind = "text" | "png" | "jpeg" | "gif" | "webp" | "pdf" | "zip" | "other";
export type FilePreview = {
  path: string;
  kind: ChangeKind;
  lines?: (string)[];
  added?: number;
  removed?: number;
  note?: string;
};
export type FileShown = {
  kind: ChangeKind;
  path: string;
  taken: boolean;
};
export type GateApproval = {
  request_id: string;
  title: string;
  risk_level: RiskLevel;
  rationale: string;
  steps: ("tap" | "confirm" | "slide" | "strong_auth")[];
  details_expanded: boolean;
  actions: (ActionShown)[];
  shown: PlanShown;
  taint: string;
  trace_id: string;
  state: string;
  created_at: string;
  expires_at: string;
  type: "gate_approval";
  gate_name: string;
  value: string;
  context: Record<string, any>;
};
export type GateResponse = {
  request_id: string;
  signature: string;
  strength?: "tap" | "slide" | "passkey";
  passkey?: Assertion | null;
  type: "gate_response";
  verdict: "approve" | "block";
};
export type Hello = {
  type: "hello";
  challenge: string;
};
export type History = {
  type: "history";
  messages: (Message)[];
};
export type JournalChanged = {
  type: "journal_changed";
  cursor: number;
};
export type Message = {
  type: "message";
  sender: "owner" | "silas";
  number: number;
  message_id: string;
  text: string;
  timestamp: string;
  trace_id: string;
  surface?: string;
  final?: boolean;
  answers?: boolean;
  chips?: (string)[];
  interaction_register?: string;
  interaction_mode?: string;
  card_id?: string | null;
  journal_changes?: (string)[];
  work_item_id?: string | null;
  printed?: (PrintedOutput)[];
  undo_until?: string | null;
  undo_items?: (UndoableItem)[];
  leaves_at?: string | null;
  attachments?: (FileAttached)[];
  conversation?: string;
};
export type PermissionEscalation = {
  request_id: string;
  title: string;
  risk_level: RiskLevel;
  rationale: string;
  steps: ("tap" | "confirm" | "slide" | "strong_auth")[];
  details_expanded: boolean;
  actions: (ActionShown)[];
  shown: PlanShown;
  taint: string;
  trace_id: string;
  state: string;
  created_at: string;
  expires_at: string;
  type: "permission_escalation";
  connection_name: string;
  current_permissions: (string)[];
  requested_permissions: (string)[];
  reason: string;
};
export type PermissionEscalationResponse = {
  request_id: string;
  signature: string;
  strength?: "tap" | "slide" | "passkey";
  passkey?: Assertion | null;
  type: "permission_escalation_response";
  verdict: "approve" | "just_this_once" | "deny";
};
export type Ping = {
  type: "ping";
};
export type PlanPreview = {
  files?: (FilePreview)[];
  note?: string;
};
export type PlanShown = {
  id: string;
  plan: string;
  plan_hash: string;
};
export type Pong = {
  type: "pong";
};
export type PrintedOutput = {
  title: string;
  is_check?: boolean;
  failed?: boolean;
  error?: string;
  first?: string;
  last?: string;
  left_out?: number;
  more?: boolean;
  taint?: TaintLevel;
};
export type ProgressFrame = {
  type: "progress";
  trace_id: string;
  what: string;
  detail: string;
};
export type Ready = {
  type: "ready";
  device_id: string;
  device_name: string;
  owner_id: string;
  ticket: string;
  version: string;
  model: string | null;
  chips: (string)[];
};
export type RiskLevel = "low" | "medium" | "high" | "irreversible";
export type Say = {
  type: "message";
  text: string;
  message_id: string;
  timestamp: string;
  nonce: string;
  signature: string;
  sender_id?: string | null;
  folder?: string | null;
  conversation?: string | null;
  attachments?: (Attached)[];
};
export type SecureInputCompleted = {
  type: "secure_input_completed";
  ref_id: string;
  success: boolean;
};
export type SecureInputRequest = {
  type: "secure_input_request";
  ref_id: string;
  label: string;
  expires_at: string;
  input_hint?: string;
  guidance?: Record<string, any>;
};
export type SkillsChanged = {
  type: "skills_changed";
};
export type StopAnswer = {
  type: "stop";
  trace_id: string;
};
export type Streaming = {
  type: "text";
  trace_id: string;
  start: number;
  piece: string;
};
export type Suggestion = {
  request_id: string;
  title: string;
  risk_level: RiskLevel;
  rationale: string;
  steps: ("tap" | "confirm" | "slide" | "strong_auth")[];
  details_expanded: boolean;
  actions: (ActionShown)[];
  shown: PlanShown;
  taint: string;
  trace_id: string;
  state: string;
  created_at: string;
  expires_at: string;
  type: "suggestion";
  suggestion: Record<string, any>;
};
export type SuggestionResponse = {
  request_id: string;
  signature: string;
  strength?: "tap" | "slide" | "passkey";
  passkey?: Assertion | null;
  type: "suggestion_response";
  selected_value?: string | null;
  freetext?: string | null;
};
export type TaintLevel = "owner" | "auth" | "external";
export type UndoableItem = {
  attempt: number;
  call: number;
  line: string;
};
export type Work = {
  type: "work";
  trace_id: string;
  work_item_id: string;
  title: string;
  status: string;
  attempts: number;
  why?: string;
  checks: (CheckShown)[];
  files?: (FileShown)[];
  budget: Record<string, any>;
  budget_used: Record<string, any>;
};
export type FromPage = Auth | Say | StopAnswer | ApprovalResponse | CheckpointResponse | GateResponse | BatchReviewResponse | DraftReviewResponse | DecisionResponse | SuggestionResponse | AutonomyThresholdResponse | ConnectionSetupResponse | PermissionEscalationResponse | ConnectionFailureResponse | SecureInputCompleted | ActivityRequest | Ping;
export type ToPage = Hello | Ready | Message | Conversations | History | Answering | Streaming | ProgressFrame | ApprovalRequest | CardClosed | Work | Activity | Attention | JournalChanged | SkillsChanged | ConnectionsChanged | CompanionsChanged | CompanionAnswering | Accepted | Failed | Pong | GateApproval | CheckpointQuestion | BatchReview | DraftReview | Decision | Suggestion | AutonomyThresholdReview | SecureInputRequest | ConnectionSetupStep | PermissionEscalation | ConnectionFailure;
