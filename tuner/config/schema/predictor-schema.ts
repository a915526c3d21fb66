/** Schema of `predictor`: what serves the model, how it is started and how it is called. */

import { z } from 'zod'
import {
  type FormFields,
  mapFields,
  replaceFieldPath,
} from '../../../profiler/protocols/form-fields.ts'
import { protocolNames, protocolTable } from '../../../profiler/protocols/protocol-table.ts'
import { findRequestFault } from '../../../profiler/protocols/request-format.ts'
import { engineNames } from '../../../trials/predictor/engines/engine-registry.ts'
import {
  assumedAcceptance,
  speculativeMethods,
} from '../../../trials/predictor/llm/speculative-methods.ts'
import { spoken } from '../../../trials/predictor/protocol/spoken.ts'
import { serverKinds } from '../../../trials/servers/server-kinds.ts'
import { type Expand, ShellError, splitWords } from '../../../trials/shell-words.ts'
import { parseBandwidthGBs, parseDurationMs, UnitError } from '../values/units.ts'
import {
  absolutePath,
  boolean,
  choice,
  createCodec,
  createQuantity,
  duration,
  numberText,
  optional,
  path,
  scalarText,
  share,
  text,
} from './schema-parts.ts'

const textMap = z.record(z.string(), scalarText, { error: 'expected name: value pairs' })
/** Makes paths in form fields absolute. Malformed fields pass, and are reported later. */
const formFields = createCodec(
  z.record(z.string(), z.union([scalarText, z.array(scalarText)]), {
    error: 'expected name: value pairs',
  }),
  (given): FormFields =>
    findRequestFault({ form: given }) === undefined
      ? mapFields(given, (value) => replaceFieldPath(value, absolutePath))
      : given,
  (value) => value as Record<string, string | string[]>,
)
/** Protocols without a path of their own. */
const protocolsNeedingPath = protocolNames
  .filter((name) => protocolTable[name].needsPath)
  .join("', '")
const command = z.union([
  z.array(numberText).min(1, { error: 'expected a program' }),
  createQuantity(splitCommand, 'a command'),
])
const prepareKeys = z.strictObject({
  command: command.describe(
    'program and arguments, with ${prepared} (the folder to fill, under the same name in the command of the server) and parameters; runs without a shell',
  ),
  env: optional(
    textMap,
    'environment variables, with the same placeholders; a value may be ${env:NAME} or ${file:PATH}',
  ),
  inputs: optional(
    z.array(path('a path')),
    'files and folders that the step reads, relative to this file; it runs again when they change. Files named in the command are included',
  ),
  timeout: optional(duration, 'maximum duration; default: 30m'),
})
/** A command in short, or all of it. */
const prepare = z.union(
  [
    createCodec(command, (words): z.output<typeof prepareKeys> => ({ command: words })),
    prepareKeys,
  ],
  {
    error: 'expected a command, or {command, env, inputs, timeout}',
  },
)
const weightedUrl = z.strictObject({
  url: text('a URL').describe('URL of one server'),
  weight: optional(
    z
      .number({ error: 'expected a weight above 0' })
      .positive({ error: 'expected a weight above 0' }),
    'its weight; default: 1',
  ),
})
/** 'http://a:8000 x3' */
const weightedUrlText = createQuantity((given): z.output<typeof weightedUrl> => {
  const [, url = '', weight] = /^(\S+?)(?:\s+x\s*([\d.]+))?$/.exec(String(given).trim()) ?? []
  if (url === '' || Number(weight ?? 1) <= 0 || Number.isNaN(Number(weight ?? 1)))
    throw new UnitError(`'${given}' is not a URL with a weight`, 'write http://a:8000 x3')
  return { url, ...(weight !== undefined && { weight: Number(weight) }) }
}, 'a URL, with its weight: http://a:8000 x3')
const urls = z
  .array(z.union([weightedUrlText, weightedUrl], { error: 'expected a URL, or {url, weight}' }), {
    error: 'expected a list of URLs, or of {url, weight}',
  })
  .min(1, { error: 'expected at least one URL' })
const kvTransferKeys = z.strictObject({
  bandwidth: optional(
    createQuantity(
      parseBandwidthGBs,
      'a bandwidth such as 25 GB/s or 200 Gb/s',
      (gbPerS) => `${gbPerS} GB/s`,
    ),
    'bandwidth per GPU',
  ),
  latency: optional(duration, 'additional latency per request'),
})
/** '25 GB/s, 2ms', or the bandwidth alone. */
const kvTransferText = createQuantity((given): z.output<typeof kvTransferKeys> => {
  const [bandwidth = '', latency] = String(given).split(',')
  return {
    bandwidth: parseBandwidthGBs(bandwidth),
    ...(latency !== undefined && { latency: parseDurationMs(latency) }),
  }
}, 'a bandwidth, and a latency: 25 GB/s, 2ms')
const predictorKeys = z.strictObject({
  kind: optional(
    choice(['builtin', 'command', 'url', 'imported'], 'a kind of predictor'),
    'default: derived from the other keys',
  ),
  engine: optional(choice(['auto', ...engineNames], 'an engine'), 'builtin: inference engine'),
  command: optional(
    command,
    'command: program and arguments, with ${port}, ${model}, ${batchSize}, ...; runs without a shell',
  ),
  server: optional(
    choice(serverKinds, 'a server'),
    'command: preset for TensorFlow Serving, Triton, vLLM, SGLang, TGI or TensorRT-LLM; tune writes its flags and files for each trial, and `command` is optional',
  ),
  kvTransfer: optional(
    z.union([kvTransferText, kvTransferKeys], {
      error: 'expected {bandwidth, latency}, or e.g. 25 GB/s, 2ms',
    }),
    'builtin: assumed KV cache transfer between simulated prefill and decode servers; default: 200 GB/s over NVLink in a machine of 8 GPUs, else 25 GB/s, and 2ms',
  ),
  url: optional(text('a URL'), 'url: a running server'),
  from: optional(
    z.array(text('a file')).min(1, { error: 'expected at least one file' }),
    'imported: written by `tune import`: the files of another tool that contain the results; no trials can run',
  ),
  urls: optional(
    urls,
    'url: several replicas of one server, instead of `url`: {url, weight}, or http://a:8000 x3; the load is spread over them by weight',
  ),
  protocol: optional(
    choice(protocolNames, 'a protocol'),
    `protocol of the server; default: ${spoken.tensors[0]}, or openai if the SLO is about streamed answers`,
  ),
  path: optional(
    text('a path'),
    `path of the inference call, for protocol '${protocolsNeedingPath}'`,
  ),
  signature: optional(
    text('a signature'),
    "protocol 'tfserving': signature to call (signature_name); default: serving_default, else the first of the model",
  ),
  healthPath: optional(
    text('a path'),
    "path that answers 200 once the server is ready; default: the protocol's own",
  ),
  body: optional(
    z.union(
      [
        text('a text'),
        createCodec(z.record(z.string(), z.json()), (document) => JSON.stringify(document)),
      ],
      {
        error: 'expected a text or a JSON object',
      },
    ),
    'request body for protocol \'json\', with placeholders {{text}}, {{image}} and {{int}}, e.g. {"text": "{{text}}"}',
  ),
  contentType: optional(
    text('a content type'),
    "protocol 'json': content type of the body, or of the single file of the payload, if it is not JSON, e.g. image/jpeg with body '{{image}}'",
  ),
  form: optional(
    formFields,
    "protocol 'json': multipart form instead of the body, field → value as in curl, or a list of values, e.g. {file: '@clip.wav', top_k: 3}; @PATH uploads a file, <PATH sends its text (relative to this file), and {{image}} is sent as a file",
  ),
  headers: optional(
    textMap,
    'url, command: HTTP headers or gRPC metadata of every request; a value may be ${env:NAME} or ${file:PATH}',
  ),
  http2: optional(
    boolean,
    'url: use HTTP/2 for REST protocols: over TLS by ALPN, over plain TCP by prior knowledge',
  ),
  ca: optional(
    path('a path'),
    'url, https and grpcs: PEM file of certificate authorities to trust, relative to this file',
  ),
  tls: optional(
    z.strictObject({
      cert: optional(
        path('a path'),
        'PEM file of the client certificate, for servers that require one, relative to this file',
      ),
      key: optional(
        path('a path'),
        'PEM file of the unencrypted key of that certificate, relative to this file',
      ),
      ca: optional(path('a path'), 'alternative place for `ca`'),
    }),
    'url, https and grpcs: client certificate',
  ),
  insecureSkipVerify: optional(boolean, 'url, https and grpcs: skip TLS certificate checks'),
  env: optional(
    textMap,
    'builtin, command: environment variables; tuned values override them; a value may be ${env:NAME} or ${file:PATH}',
  ),
  envNames: optional(
    textMap,
    'command: environment variable of a parameter, name → variable; default: BATCH_SIZE for batchSize',
  ),
  argFormat: optional(
    z.array(z.string()),
    "command: how a parameter of category args is written; default: ['--${name}=${value}']",
  ),
  files: optional(
    textMap,
    'command: files to write into the folder of the trial, path → text with placeholders',
  ),
  prepare: optional(
    prepare,
    'command: step to run before the server starts, such as building an engine or converting a model; it runs once per set of values in it, and tune reuses the result',
  ),
  reconfigure: optional(
    command,
    'command: command that changes values of the running server, once it is ready and before each trial, with ${host}, ${port}, ${model} and parameters of category server; parameters used only here need no restart',
  ),
  cwd: optional(
    path('a path'),
    'command: working directory, relative to this file; default: the folder of this file',
  ),
  acceptance: optional(
    share,
    `builtin: assumed acceptance probability of a draft token, for simulated or emulated speculative decoding; default: ${speculativeMethods.map((method) => `${assumedAcceptance[method]} (${method})`).join(', ')}`,
  ),
  readyTimeout: optional(
    duration,
    'maximum time until the server is ready; default: 60s, for vllm, sglang, tgi and tensorrt-llm 15m',
  ),
})
type PredictorEntry = z.output<typeof predictorKeys>
export const predictor = z.union(
  [createCodec(z.literal('builtin'), (): PredictorEntry => ({ kind: 'builtin' })), predictorKeys],
  {
    error: 'expected builtin, or an object with engine, command or url',
  },
)

/**
 * `gunicorn --bind "127.0.0.1:${port}" app:app` → ['gunicorn', '--bind', '127.0.0.1:${port}',
 * 'app:app']. $PORT and ${PORT:-8000} become the trial's port; other ${names} stay placeholders.
 * @throws UnitError for shell syntax, an unclosed quote or an empty text
 */
function splitCommand(input: string | number): string[] {
  try {
    return [...splitWords(String(input), expand)]
  } catch (error) {
    if (!(error instanceof ShellError)) throw error
    throw new UnitError(error.message, error.hint)
  }
}

const expand: Expand = ({ name, text }) => {
  if (name === 'PORT') return '${port}'
  if (text.startsWith('${')) return text
  throw new ShellError(
    `the command uses the variable $${name}, but tune runs it without a shell`,
    `write its value, or run the command in a shell: [sh, -c, 'exec ... $${name}']`,
  )
}
