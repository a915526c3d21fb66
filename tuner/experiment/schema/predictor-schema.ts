/**
 * The experiment file's `predictor`: what serves the model, how it is started and how it is asked.
 */
import { z } from 'zod'
import { protocolNames, protocolTable } from '../../../profiler/protocols/protocol-table.ts'
import { serverKinds } from '../../../trials/launchers/server-files/server-kinds.ts'
import { engineNames } from '../../../trials/predictor/engines/engine-registry.ts'
import {
  assumedAcceptance,
  speculativeMethods,
} from '../../../trials/predictor/llm/speculative-methods.ts'
import { spoken } from '../../../trials/predictor/protocol/spoken.ts'
import { splitCommand } from '../flags/command-line.ts'
import { parseBandwidthGBs, parseDurationMs, UnitError } from '../units.ts'
import { choice, duration, quantity, share, text } from './schema-parts.ts'

const texts = z.record(
  z.string(),
  z.union([z.string(), z.number().transform(String), z.boolean().transform(String)]),
  {
    error: 'expected name: value pairs',
  },
)
const fieldValue = z.union([
  z.string(),
  z.number().transform(String),
  z.boolean().transform(String),
])
const fields = z.record(z.string(), z.union([fieldValue, z.array(fieldValue)]), {
  error: 'expected name: value pairs',
})
/** Protocols that say nothing of their paths. */
const pathNamed = protocolNames.filter((name) => protocolTable[name].needsPath).join("', '")
const flag = z.boolean({ error: 'expected true or false' })
const command = z.union([
  z
    .array(z.union([z.string(), z.number().transform(String)]))
    .min(1, { error: 'expected a program' }),
  quantity(splitCommand, 'a command'),
])
const prepareKeys = z.strictObject({
  command: command.describe(
    'program and arguments, with ${prepared} (the folder to fill) and parameters; run without a shell',
  ),
  env: texts
    .optional()
    .describe(
      'its environment, with the same placeholders; a value may be ${env:NAME} or ${file:PATH}',
    ),
  inputs: z
    .array(text('a path'))
    .optional()
    .describe(
      'files and folders that it reads, relative to this file; a change runs it again. Files in the command are included',
    ),
  timeout: duration.optional().describe('maximum duration; default: 30m'),
})
/** A command in short, or all of it. */
const prepare = z.union(
  [command.transform((words): z.output<typeof prepareKeys> => ({ command: words })), prepareKeys],
  {
    error: 'expected a command, or {command, env, inputs, timeout}',
  },
)
const weighted = z.strictObject({
  url: text('a URL').describe('URL of one server'),
  weight: z
    .number({ error: 'expected a weight above 0' })
    .positive({ error: 'expected a weight above 0' })
    .optional()
    .describe('its weight; default: 1'),
})
/** 'http://a:8000 x3' */
const weightedText = quantity((given): z.output<typeof weighted> => {
  const [, url = '', weight] = /^(\S+?)(?:\s+x\s*([\d.]+))?$/.exec(String(given).trim()) ?? []
  if (url === '' || Number(weight ?? 1) <= 0 || Number.isNaN(Number(weight ?? 1)))
    throw new UnitError(`'${given}' is no URL with a weight`, 'write http://a:8000 x3')
  return { url, ...(weight !== undefined && { weight: Number(weight) }) }
}, 'a URL, with its weight: http://a:8000 x3')
const urls = z
  .array(z.union([weightedText, weighted], { error: 'expected a URL, or {url, weight}' }), {
    error: 'expected a list of URLs, or of {url, weight}',
  })
  .min(1, { error: 'expected at least one URL' })
const kvTransferKeys = z.strictObject({
  bandwidth: quantity(parseBandwidthGBs, 'a bandwidth such as 25 GB/s or 200 Gb/s')
    .optional()
    .describe('bandwidth of each GPU'),
  latency: duration.optional().describe('additional latency of each request'),
})
/** '25 GB/s, 2ms', or the bandwidth alone. */
const kvTransferText = quantity((given): z.output<typeof kvTransferKeys> => {
  const [bandwidth = '', latency] = String(given).split(',')
  return {
    bandwidth: parseBandwidthGBs(bandwidth),
    ...(latency !== undefined && { latency: parseDurationMs(latency) }),
  }
}, 'a bandwidth, and a latency: 25 GB/s, 2ms')
const predictorKeys = z.strictObject({
  kind: choice(['builtin', 'command', 'url', 'imported'], 'a kind of predictor')
    .optional()
    .describe('kind of predictor; default: derived from the other keys'),
  engine: choice(['auto', ...engineNames], 'an engine')
    .optional()
    .describe('builtin: inference engine'),
  command: command
    .optional()
    .describe(
      'command: program and arguments, with ${port}, ${model}, ${batchSize}, ...; run without a shell',
    ),
  server: choice(serverKinds, 'a server')
    .optional()
    .describe(
      'command: preset that writes the flags and files of a known server for each trial; `command` may be omitted',
    ),
  kvTransfer: z
    .union([kvTransferText, kvTransferKeys], {
      error: 'expected {bandwidth, latency}, or e.g. 25 GB/s, 2ms',
    })
    .optional()
    .describe(
      'builtin: assumed KV cache transfer between simulated prefill and decode servers; default: 200 GB/s over NVLink in a machine of 8 GPUs, else 25 GB/s, and 2ms',
    ),
  url: text('a URL').optional().describe('url: a server that is already running'),
  from: z
    .array(text('a file'))
    .min(1, { error: 'expected at least one file' })
    .optional()
    .describe(
      'imported: written by `tune import`: result files of another tool; such an experiment cannot run',
    ),
  urls: urls
    .optional()
    .describe(
      'url: several replicas of one server instead of `url`: {url, weight}, or http://a:8000 x3; load is spread by weight',
    ),
  protocol: choice(protocolNames, 'a protocol')
    .optional()
    .describe(
      `protocol of the requests; default: ${spoken.tensors[0]}, openai if the SLO is about a stream`,
    ),
  path: text('a path')
    .optional()
    .describe(`path of the inference call, for protocol '${pathNamed}'`),
  signature: text('a signature')
    .optional()
    .describe(
      "protocols 'tfserving': signature to call (signature_name); default: serving_default, else the model's first",
    ),
  healthPath: text('a path')
    .optional()
    .describe("path that answers 200 once ready; default: the protocol's own"),
  body: z
    .union(
      [
        text('a text'),
        z.record(z.string(), z.json()).transform((document) => JSON.stringify(document)),
      ],
      {
        error: 'expected a text or a JSON object',
      },
    )
    .optional()
    .describe(
      'request body for protocol \'json\', e.g. {"text": "{{text}}"}; {{text}}, {{image}} and {{int}} are filled in',
    ),
  contentType: text('a content type')
    .optional()
    .describe(
      "protocol 'json': content type of the body or of a payload that is one file, if it is not JSON, e.g. image/jpeg with body '{{image}}'",
    ),
  form: fields
    .optional()
    .describe(
      "protocol 'json': multipart/form-data instead of the body, field → value as in curl, or a list, e.g. {file: '@clip.wav', top_k: 3}; @PATH uploads a file and <PATH sends its text (relative to this file)",
    ),
  headers: texts
    .optional()
    .describe(
      'url, command: HTTP headers or gRPC metadata of every request; a value may be ${env:NAME} or ${file:PATH}',
    ),
  http2: flag
    .optional()
    .describe(
      'url: HTTP/2 for REST protocols, over TLS by ALPN, over plain TCP by prior knowledge',
    ),
  ca: text('a path')
    .optional()
    .describe(
      'url, https and grpcs: PEM file of certificate authorities to trust, relative to this file',
    ),
  tls: z
    .strictObject({
      cert: text('a path')
        .optional()
        .describe('PEM file of the client certificate, relative to this file'),
      key: text('a path')
        .optional()
        .describe('PEM file of its unencrypted key, relative to this file'),
      ca: text('a path').optional().describe('the same as `ca`'),
    })
    .optional()
    .describe('url, https and grpcs: client certificate'),
  insecureSkipVerify: flag.optional().describe('url, https and grpcs: skip TLS certificate checks'),
  env: texts
    .optional()
    .describe(
      'builtin, command: environment variables; tuned values override them; a value may be ${env:NAME} or ${file:PATH}',
    ),
  envNames: texts
    .optional()
    .describe('command: parameter → environment variable, if it is not BATCH_SIZE for batchSize'),
  argFormat: z
    .array(z.string())
    .optional()
    .describe(
      "command: how a parameter of category args is written; default: ['--${name}=${value}']",
    ),
  files: texts
    .optional()
    .describe("command: files to write into the trial's folder, path → text with placeholders"),
  prepare: prepare
    .optional()
    .describe(
      'command: step before the server starts, once for each set of values in it, e.g. to build an engine; its result is reused',
    ),
  reconfigure: command
    .optional()
    .describe(
      'command: sets values on the running server before each trial, with ${host}, ${port}, ${model} and parameters of category server, so that trials need no restart',
    ),
  cwd: text('a path')
    .optional()
    .describe(
      'command: working directory, relative to this file; default: the folder of this file',
    ),
  acceptance: share
    .optional()
    .describe(
      `builtin: assumed probability that a draft token is accepted, for simulated and emulated speculative decoding; default: ${speculativeMethods.map((method) => `${assumedAcceptance[method]} (${method})`).join(', ')}`,
    ),
  readyTimeout: duration
    .optional()
    .describe(
      'maximum time until the server is ready; default: 60s, for vllm, sglang, tgi and tensorrt-llm 15m',
    ),
})
type PredictorEntry = z.output<typeof predictorKeys>
export const predictor = z.union(
  [z.literal('builtin').transform((): PredictorEntry => ({ kind: 'builtin' })), predictorKeys],
  {
    error: 'expected builtin, or an object with engine, command or url',
  },
)
