/**
 * Flags of a server of one's own: everything that `predictor` and `expect` of the experiment file
 * say of how it is started and asked. Commands that ask a server without an experiment (init,
 * verify) take theirs from here.
 */
import { protocolNames } from '../../../profiler/protocols/protocol-table.ts'
import { serverKinds } from '../../../trials/launchers/server-files/server-kinds.ts'
import { defaults } from '../names.ts'
import type { Flag } from './flag-entries.ts'

const group = "A server of one's own"

export const serverFlags: readonly Flag[] = [
  {
    flags: '--command <command>',
    group,
    path: ['predictor', 'command'],
    what: 'your own predictor: a command with ${port}, ${batchSize}, ... in it, run without a shell (default: the built-in one)',
  },
  {
    flags: '--url <url>',
    group,
    path: ['predictor', 'url'],
    what: 'a predictor that runs already',
  },
  {
    flags: '--urls <url>',
    group,
    gather: 'list',
    path: ['predictor', 'urls'],
    what: "--url: several of the same, may be repeated, with weights by which load is spread over them, e.g. 'http://a:8000 x3' (default: one)",
  },
  {
    flags: '--server <name>',
    group,
    path: ['predictor', 'server'],
    what: `${serverKinds.join(' | ')}: its flags and files are written for each trial (default: the command as it stands)`,
  },
  {
    flags: '--protocol <name>',
    group,
    path: ['predictor', 'protocol'],
    what: `${protocolNames.join(' | ')} (default: ${protocolNames[0]}; of language models openai)`,
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
    what: "TensorFlow Serving: the signature that is called (default: serving_default, else the model's first)",
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
    what: "sent with every request, may be repeated, e.g. 'Authorization: Bearer x'; gRPC metadata alike",
  },
  {
    flags: '--body <json>',
    group,
    path: ['predictor', 'body'],
    what: 'request body for --protocol json, with {{text}}, {{image}} and {{int}} filled in (default: {"text": "{{text}}"})',
  },
  {
    flags: '--content-type <type>',
    group,
    path: ['predictor', 'contentType'],
    what: "of --body, or of a --payload that is one whole request, e.g. image/jpeg with --body '{{image}}' (default: application/json; of a file by its name)",
  },
  {
    flags: '--form <name=value>',
    group,
    gather: 'fields',
    path: ['predictor', 'form'],
    what: "a field of multipart/form-data in place of --body, may be repeated, as curl has it: e.g. 'file=@clip.wav' (a file; ;type= and ;filename= may follow), 'text=<words.txt' (its text); 'file={{image}}' is sent as a file",
  },
  {
    flags: '--expect <path=value>',
    group,
    gather: 'documents',
    path: ['expect'],
    what: "what stands in every answer, may be repeated, e.g. 'predictions[0].label=spam'",
  },
  {
    flags: '--http2',
    group,
    path: ['predictor', 'http2'],
    value: true,
    what: '--url: HTTP/2, over TLS by ALPN, over plain TCP by prior knowledge',
  },
  {
    flags: '--ca <file>',
    group,
    path: ['predictor', 'ca'],
    what: '--url, https and grpcs: certificates of the authorities to trust, PEM (default: those of this machine)',
  },
  {
    flags: '--cert <file>',
    group,
    path: ['predictor', 'tls', 'cert'],
    what: "--url, https and grpcs: the client's own certificate, PEM, where the server asks for one (default: none)",
  },
  {
    flags: '--key <file>',
    group,
    path: ['predictor', 'tls', 'key'],
    what: '--url: the key of --cert, PEM, not encrypted',
  },
  {
    flags: '--insecure-skip-verify',
    group,
    path: ['predictor', 'insecureSkipVerify'],
    value: true,
    what: '--url, https and grpcs: takes any certificate for good',
  },
  {
    flags: '--env <name=value>',
    group,
    gather: 'entries',
    path: ['predictor', 'env'],
    what: 'environment of the command, may be repeated, e.g. OMP_NUM_THREADS=1',
  },
  {
    flags: '--env-name <parameter=variable>',
    group,
    gather: 'entries',
    path: ['predictor', 'envNames'],
    what: "--command: the variable of a parameter 'env:', may be repeated, e.g. batchSize=MAX_BATCH (default: BATCH_SIZE for batchSize)",
  },
  {
    flags: '--arg-format <word>',
    group,
    gather: 'list',
    path: ['predictor', 'argFormat'],
    what: "--command: how a parameter 'args:' is written, a word each time it stands (default: '--${name}=${value}')",
  },
  {
    flags: '--write <path=text>',
    group,
    gather: 'entries',
    path: ['predictor', 'files'],
    what: "--command: a file in the folder of the trial, ${dir}, may be repeated, e.g. 'server.yaml=workers: ${workers}'",
  },
  {
    flags: '--prepare <command>',
    group,
    path: ['predictor', 'prepare'],
    what: "--command: run before it, once for each set of values that stand in it, e.g. 'python3 build.py --precision ${precision} ${prepared}' (default: nothing)",
  },
  {
    flags: '--reconfigure <command>',
    group,
    path: ['predictor', 'reconfigure'],
    what: "--command: sets values on it while it runs, e.g. 'curl -fsS -X PUT http://${host}:${port}/limit/${limit}': of these another one needs no other start (default: nothing)",
  },
  {
    flags: '--cwd <folder>',
    group,
    path: ['predictor', 'cwd'],
    what: '--command: its working directory (default: this one)',
  },
  {
    flags: '--engine <name>',
    group,
    path: ['predictor', 'engine'],
    what: 'the built-in predictor: what runs the model, auto, tfjs, onnx or emulated (default: auto)',
  },
  {
    flags: '--ready-timeout <duration>',
    group,
    path: ['predictor', 'readyTimeout'],
    what: `how long it may take to be ready (default: ${defaults.readyTimeout}, of servers of language models ${defaults.languageReadyTimeout})`,
  },
]
