# A server, an execution, its stream and an approval, with nothing but curl. Run it with bash -eu.
# It needs: pip install 'agentic-kernel-cli[server]'

# --8<-- [start:policy]
cat > rules.yaml <<'RULES'
version: 1
rules:
  - name: payments
    priority: 10
    effect: require_approval
    match: {capability: "pay.*"}
    approval: {approvers: [ann], timeout_seconds: 3600}
  - name: reading
    priority: 20
    effect: allow
    match: {capability: "web.*"}
    limit: {calls: 100, seconds: 60, per: tenant}
RULES
# --8<-- [end:policy]

# --8<-- [start:keys]
ANN=$(agentic-kernel keys make --keys keys.json --principal ann --scope client --scope approver)
SWE=$(agentic-kernel keys make --keys keys.json --principal swe --scope agent)
# --8<-- [end:keys]

# --8<-- [start:serve]
URL=http://127.0.0.1:${PORT:-8080}
agentic-kernel --state ./state serve --listen "${URL#http://}" \
    --policy rules.yaml --keys keys.json 2> serve.log &
SERVER=$!
curl -s --retry 60 --retry-connrefused --retry-delay 1 "$URL/v0/ready"
# --8<-- [end:serve]

trap 'kill $SERVER 2> /dev/null || true' EXIT

# --8<-- [start:create]
as() { # KEY, then the words of curl
    curl -s -H "Authorization: Bearer $1" -H 'Content-Type: application/json' "${@:2}"
}
EXECUTION=$(as "$ANN" "$URL/v0/executions" \
    -d '{"agent_id": "swe", "input": {"invoice": 7}, "labels": {"team": "red"}}' |
    sed -n 's/.*"id":"\([^"]*\)".*/\1/p')
# --8<-- [end:create]

# --8<-- [start:stream]
as "$ANN" -N "$URL/v0/executions/$EXECUTION/stream" > events.txt &
READER=$!
# --8<-- [end:stream]

# --8<-- [start:agent]
as "$SWE" -N "$URL/v0/agents/stream?agent_id=swe&consumer_id=curl" > agent.txt &
AGENT=$!
until grep -q session_id agent.txt; do sleep 0.1; done
SESSION=$(sed -n 's/.*"session_id":"\([^"]*\)".*/\1/p' agent.txt)

intent() { # "type": …
    as "$SWE" "$URL/v0/agents/intent" \
        -d "{\"execution_id\": \"$EXECUTION\", \"session_id\": \"$SESSION\", \"intent\": {$1}}"
}
intent '"type": "invoke_tool", "tool_id": "mail.send", "arguments": {}' # denied: no rule allows it
echo
STEP=$(intent '"type": "invoke_tool", "tool_id": "pay.invoice", "arguments": {"amount": 7}' |
    sed -n 's/.*"step_id":"\([^"]*\)".*/\1/p')
# --8<-- [end:agent]

# --8<-- [start:approve]
as "$ANN" "$URL/v0/executions/$EXECUTION/signal" \
    -d "{\"signal_type\": \"step.approve\", \"payload\": {\"step_id\": \"$STEP\", \"approved\": true}}"
# --8<-- [end:approve]
echo

# --8<-- [start:finish]
until grep -q approval.resolved agent.txt; do sleep 0.1; done
as "$SWE" "$URL/v0/agents/step-result" -d "{\"execution_id\": \"$EXECUTION\",
    \"session_id\": \"$SESSION\", \"step_id\": \"$STEP\", \"success\": true, \"data\": \"paid\"}"
intent '"type": "complete", "output": "invoice 7 is paid"'
echo
wait $READER
cat events.txt
as "$ANN" "$URL/v0/executions/$EXECUTION"
echo
# --8<-- [end:finish]

# --8<-- [start:stop]
kill $AGENT
kill -TERM $SERVER
wait $SERVER
# --8<-- [end:stop]
