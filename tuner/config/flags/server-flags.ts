/**
 * Flags of the user's own server: how it is started and called (`predictor` and `expect` of the
 * experiment file). `tune init` and `tune verify` reuse them.
 */
import { protocolNames } from '../../../profiler/protocols/protocol-table.ts'
import { serverKinds } from '../../../trials/servers/server-kinds.ts'
import { defaults } from '../names.ts'
import type { Flag } from './flag-entries.ts'

export const serverFlags: readonly Omit<Flag, 'group'>[] = [
  {
    flags: '--command <command>',
    path: ['predictor', 'command'],
    what: 'command that starts your server, with ${port}, ${batchSize}, ... in it; run without a shell (default: the built-in server)',
  },
  {
    flags: '--url <url>',
    path: ['predictor', 'url'],
    what: 'URL of a server that is already running',
  },
  {
    flags: '--urls <url>',
    gather: 'list',
    path: ['predictor', 'urls'],
    what: "several replicas of one server, with optional weights: 'http://a:8000 x3'; repeatable (default: none)",
  },
  {
    flags: '--server <name>',
    path: ['predictor', 'server'],
    what: `preset that writes the flags and files of a known server for each trial: ${serverKinds.join(' | ')} (default: none)`,
  },
  {
    flags: '--protocol <name>',
    path: ['predictor', 'protocol'],
    what: `${protocolNames.join(' | ')} (default: ${protocolNames[0]}, for language models openai)`,
  },
  {
    flags: '--path <path>',
    path: ['predictor', 'path'],
    what: "path of the inference call (default: the protocol's)",
  },
  {
    flags: '--signature <name>',
    path: ['predictor', 'signature'],
    what: "signature to call in TensorFlow Serving (default: serving_default, else the model's first)",
  },
  {
    flags: '--health-path <path>',
    path: ['predictor', 'healthPath'],
    what: "path that answers 200 once ready (default: the protocol's)",
  },
  {
    flags: '--header <header>',
    gather: 'headers',
    path: ['predictor', 'headers'],
    what: "HTTP header or gRPC metadata of every request: 'Authorization: Bearer x'; repeatable",
  },
  {
    flags: '--body <json>',
    path: ['predictor', 'body'],
    what: 'request body of --protocol json, with placeholders {{text}}, {{image}} and {{int}} (default: {"text": "{{text}}"})',
  },
  {
    flags: '--content-type <type>',
    path: ['predictor', 'contentType'],
    what: "content type of --body or of a --payload that is a whole request: image/jpeg with --body '{{image}}' (default: application/json; for files by their name)",
  },
  {
    flags: '--form <name=value>',
    gather: 'fields',
    path: ['predictor', 'form'],
    what: "field of a multipart form instead of --body, as in curl: 'file=@clip.wav' (a file; ;type= and ;filename= may follow), 'text=<words.txt' (its text), 'file={{image}}'; repeatable",
  },
  {
    flags: '--expect <path=value>',
    gather: 'documents',
    path: ['expect'],
    what: "value that every answer must contain: 'predictions[0].label=spam'; repeatable",
  },
  {
    flags: '--http2',
    path: ['predictor', 'http2'],
    value: true,
    what: 'use HTTP/2 with --url: over TLS by ALPN, over plain TCP by prior knowledge',
  },
  {
    flags: '--ca <file>',
    path: ['predictor', 'ca'],
    what: 'PEM file of certificate authorities to trust (default: those of this machine)',
  },
  {
    flags: '--cert <file>',
    path: ['predictor', 'tls', 'cert'],
    what: 'PEM file of the client certificate, for servers that require one (default: none)',
  },
  {
    flags: '--key <file>',
    path: ['predictor', 'tls', 'key'],
    what: 'PEM file of the unencrypted key of --cert',
  },
  {
    flags: '--insecure-skip-verify',
    path: ['predictor', 'insecureSkipVerify'],
    value: true,
    what: 'skip TLS certificate checks',
  },
  {
    flags: '--env <name=value>',
    gather: 'entries',
    path: ['predictor', 'env'],
    what: 'environment variable of the command: OMP_NUM_THREADS=1; repeatable',
  },
  {
    flags: '--env-name <parameter=variable>',
    gather: 'entries',
    path: ['predictor', 'envNames'],
    what: 'environment variable of a parameter: batchSize=MAX_BATCH; repeatable (default: BATCH_SIZE for batchSize)',
  },
  {
    flags: '--arg-format <word>',
    gather: 'list',
    path: ['predictor', 'argFormat'],
    what: "how an args: parameter is written, one word each time; repeatable (default: '--${name}=${value}')",
  },
  {
    flags: '--write <path=text>',
    gather: 'entries',
    path: ['predictor', 'files'],
    what: "file to write into the folder of the trial, ${dir}: 'server.yaml=workers: ${workers}'; repeatable",
  },
  {
    flags: '--prepare <command>',
    path: ['predictor', 'prepare'],
    what: "command to run first, once for each set of values in it: 'python3 build.py --precision ${precision} ${prepared}' (default: none)",
  },
  {
    flags: '--reconfigure <command>',
    path: ['predictor', 'reconfigure'],
    what: "command that changes values of the running server, so that trials need no restart: 'curl -fsS -X PUT http://${host}:${port}/limit/${limit}' (default: none)",
  },
  {
    flags: '--cwd <folder>',
    path: ['predictor', 'cwd'],
    what: 'working directory of the command (default: the current one)',
  },
  {
    flags: '--engine <name>',
    path: ['predictor', 'engine'],
    what: 'inference engine of the built-in server: auto, tfjs, onnx or emulated (default: auto)',
  },
  {
    flags: '--ready-timeout <duration>',
    path: ['predictor', 'readyTimeout'],
    what: `maximum time until the server is ready (default: ${defaults.readyTimeout}, for language models ${defaults.languageReadyTimeout})`,
  },
]
