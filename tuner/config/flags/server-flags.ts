/**
 * Flags of a server of one's own: everything that `predictor` and `expect` of the experiment file
 * say of how it is started and asked. Commands that ask a server without an experiment (init,
 * verify) take theirs from here.
 */
import { protocolNames } from '../../../profiler/protocols/protocol-table.ts'
import { serverKinds } from '../../../trials/servers/server-kinds.ts'
import { defaults } from '../names.ts'
import type { Flag } from './flag-entries.ts'

const group = 'Your own server'

export const serverFlags: readonly Flag[] = [
  {
    flags: '--command <command>',
    group,
    path: ['predictor', 'command'],
    what: 'command that starts your server, with ${port}, ${batchSize}, ... in it; run without a shell (default: the built-in server)',
  },
  {
    flags: '--url <url>',
    group,
    path: ['predictor', 'url'],
    what: 'URL of a server that is already running',
  },
  {
    flags: '--urls <url>',
    group,
    gather: 'list',
    path: ['predictor', 'urls'],
    what: "several replicas of one server, with optional weights: 'http://a:8000 x3'; repeatable (default: none)",
  },
  {
    flags: '--server <name>',
    group,
    path: ['predictor', 'server'],
    what: `preset that writes the flags and files of a known server for each trial: ${serverKinds.join(' | ')} (default: none)`,
  },
  {
    flags: '--protocol <name>',
    group,
    path: ['predictor', 'protocol'],
    what: `${protocolNames.join(' | ')} (default: ${protocolNames[0]}, for language models openai)`,
  },
  {
    flags: '--path <path>',
    group,
    path: ['predictor', 'path'],
    what: "path of the inference call (default: the protocol's)",
  },
  {
    flags: '--signature <name>',
    group,
    path: ['predictor', 'signature'],
    what: "signature to call in TensorFlow Serving (default: serving_default, else the model's first)",
  },
  {
    flags: '--health-path <path>',
    group,
    path: ['predictor', 'healthPath'],
    what: "path that answers 200 once ready (default: the protocol's)",
  },
  {
    flags: '--header <header>',
    group,
    gather: 'headers',
    path: ['predictor', 'headers'],
    what: "HTTP header or gRPC metadata of every request: 'Authorization: Bearer x'; repeatable",
  },
  {
    flags: '--body <json>',
    group,
    path: ['predictor', 'body'],
    what: 'request body of --protocol json, with placeholders {{text}}, {{image}} and {{int}} (default: {"text": "{{text}}"})',
  },
  {
    flags: '--content-type <type>',
    group,
    path: ['predictor', 'contentType'],
    what: "content type of --body or of a --payload that is a whole request: image/jpeg with --body '{{image}}' (default: application/json; for files by their name)",
  },
  {
    flags: '--form <name=value>',
    group,
    gather: 'fields',
    path: ['predictor', 'form'],
    what: "field of a multipart form instead of --body, as in curl: 'file=@clip.wav' (a file; ;type= and ;filename= may follow), 'text=<words.txt' (its text), 'file={{image}}'; repeatable",
  },
  {
    flags: '--expect <path=value>',
    group,
    gather: 'documents',
    path: ['expect'],
    what: "value that every answer must contain: 'predictions[0].label=spam'; repeatable",
  },
  {
    flags: '--http2',
    group,
    path: ['predictor', 'http2'],
    value: true,
    what: 'use HTTP/2 with --url: over TLS by ALPN, over plain TCP by prior knowledge',
  },
  {
    flags: '--ca <file>',
    group,
    path: ['predictor', 'ca'],
    what: 'PEM file of certificate authorities to trust (default: those of this machine)',
  },
  {
    flags: '--cert <file>',
    group,
    path: ['predictor', 'tls', 'cert'],
    what: 'PEM file of the client certificate, for servers that require one (default: none)',
  },
  {
    flags: '--key <file>',
    group,
    path: ['predictor', 'tls', 'key'],
    what: 'PEM file of the unencrypted key of --cert',
  },
  {
    flags: '--insecure-skip-verify',
    group,
    path: ['predictor', 'insecureSkipVerify'],
    value: true,
    what: 'skip TLS certificate checks',
  },
  {
    flags: '--env <name=value>',
    group,
    gather: 'entries',
    path: ['predictor', 'env'],
    what: 'environment variable of the command: OMP_NUM_THREADS=1; repeatable',
  },
  {
    flags: '--env-name <parameter=variable>',
    group,
    gather: 'entries',
    path: ['predictor', 'envNames'],
    what: 'environment variable of a parameter: batchSize=MAX_BATCH; repeatable (default: BATCH_SIZE for batchSize)',
  },
  {
    flags: '--arg-format <word>',
    group,
    gather: 'list',
    path: ['predictor', 'argFormat'],
    what: "how an args: parameter is written, one word each time; repeatable (default: '--${name}=${value}')",
  },
  {
    flags: '--write <path=text>',
    group,
    gather: 'entries',
    path: ['predictor', 'files'],
    what: "file to write into the folder of the trial, ${dir}: 'server.yaml=workers: ${workers}'; repeatable",
  },
  {
    flags: '--prepare <command>',
    group,
    path: ['predictor', 'prepare'],
    what: "command to run first, once for each set of values in it: 'python3 build.py --precision ${precision} ${prepared}' (default: none)",
  },
  {
    flags: '--reconfigure <command>',
    group,
    path: ['predictor', 'reconfigure'],
    what: "command that changes values of the running server, so that trials need no restart: 'curl -fsS -X PUT http://${host}:${port}/limit/${limit}' (default: none)",
  },
  {
    flags: '--cwd <folder>',
    group,
    path: ['predictor', 'cwd'],
    what: 'working directory of the command (default: the current one)',
  },
  {
    flags: '--engine <name>',
    group,
    path: ['predictor', 'engine'],
    what: 'inference engine of the built-in server: auto, tfjs, onnx or emulated (default: auto)',
  },
  {
    flags: '--ready-timeout <duration>',
    group,
    path: ['predictor', 'readyTimeout'],
    what: `maximum time until the server is ready (default: ${defaults.readyTimeout}, for language models ${defaults.languageReadyTimeout})`,
  },
]
