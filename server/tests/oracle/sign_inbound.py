#!/usr/bin/env python3
"""Signs requests as providers do, with the official PyPI libraries.

Input: one JSON object a line: {lib, secret, id, now, body_base64}; lib is slack, standardwebhooks or svix.
Output: one JSON line for each: the headers, as a list of [name, value] pairs."""
import base64, datetime, json, sys

def slack(o, body):
    from slack_sdk.signature import SignatureVerifier
    signed = SignatureVerifier(o["secret"]).generate_signature(timestamp=str(o["now"]), body=body)
    return [["X-Slack-Request-Timestamp", str(o["now"])], ["X-Slack-Signature", signed]]

def standard(module, prefix):
    def sign(o, body):
        at = datetime.datetime.fromtimestamp(o["now"], tz=datetime.timezone.utc)
        signed = module.Webhook(o["secret"]).sign(o["id"], at, body.decode())
        return [[prefix + "-id", o["id"]], [prefix + "-timestamp", str(o["now"])], [prefix + "-signature", signed]]
    return sign

def main():
    import standardwebhooks.webhooks, svix.webhooks
    sign = {"slack": slack, "standardwebhooks": standard(standardwebhooks.webhooks, "webhook"), "svix": standard(svix.webhooks, "svix")}
    for line in filter(str.strip, sys.stdin):
        order = json.loads(line)
        print(json.dumps(sign[order["lib"]](order, base64.b64decode(order["body_base64"]))))

main()
