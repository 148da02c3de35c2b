#!/usr/bin/env node
// Signs requests as providers do, with the official npm libraries.
// Input: one JSON object a line: {lib, secret, id, now, body_base64}; lib is stripe, github, standardwebhooks or svix.
// Output: one JSON line for each: the headers, as a list of [name, value] pairs.
import fs from 'node:fs';
import { Webhook as StandardWebhook } from 'standardwebhooks';
import { Webhook as SvixWebhook } from 'svix';
import Stripe from 'stripe';
import { sign as githubSign } from '@octokit/webhooks-methods';

const SIGN = {
  stripe: ({ secret, now }, payload) => [
    ['Stripe-Signature', new Stripe('sk_test_unused').webhooks.generateTestHeaderString({ payload, secret, timestamp: now })],
  ],
  github: async ({ secret, id }, payload) => [
    ['X-GitHub-Event', 'push'],
    ['X-GitHub-Delivery', id],
    ['X-Hub-Signature-256', await githubSign(secret, payload)],
  ],
  standardwebhooks: ({ secret, id, now }, payload) => [
    ['webhook-id', id],
    ['webhook-timestamp', String(now)],
    ['webhook-signature', new StandardWebhook(secret).sign(id, new Date(now * 1000), payload)],
  ],
  svix: ({ secret, id, now }, payload) => [
    ['svix-id', id],
    ['svix-timestamp', String(now)],
    ['svix-signature', new SvixWebhook(secret).sign(id, new Date(now * 1000), payload)],
  ],
};

for (const line of fs.readFileSync(0, 'utf8').split('\n').filter(Boolean)) {
  const order = JSON.parse(line);
  console.log(JSON.stringify(await SIGN[order.lib](order, Buffer.from(order.body_base64, 'base64').toString('utf8'))));
}
