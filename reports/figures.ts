/**
 * Whether figures hold for what is deployed: what was measured compared with what serves, in words,
 * and the command that checks it.
 */

import { type Slo, sloFlag } from '../profiler/model/slo.ts'
import { type ProtocolName, protocolTable } from '../profiler/protocols/protocol-table.ts'
import type { MeasuredServer, MeasuredWith } from '../trials/measured-with.ts'
import { languageServers } from '../trials/servers/server-kinds.ts'
import type { Provenance } from '../trials/types.ts'

/** Servers that a spec may start in place of the one that was measured. */
export const chosenServers = ['tfserving', 'triton', 'mlserver', ...languageServers] as const

export type DeployedServer = MeasuredServer | (typeof chosenServers)[number] | 'ray'

/** What a spec starts. */
export interface Deployed {
  readonly server: DeployedServer
  /** Of the built-in predictor. */
  readonly engine?: 'tfjs' | 'onnx' | 'gguf'
  /**
   * 'given': the user named their place. 'missing': a placeholder that refuses to start.
   * 'own': the server finds them itself.
   */
  readonly weights: 'given' | 'missing' | 'own'
}

export interface Figures {
  readonly how: Provenance
  /**
   * What is deployed is what was measured: scaling targets and deadlines may rest on the figures.
   */
  readonly hold: boolean
  /** Why the figures do not hold, a clause each. */
  readonly doubts: readonly string[]
  /** What differs and moves no figure by itself, a clause each. */
  readonly remarks: readonly string[]
}

export const serverTitles: Readonly<Record<DeployedServer, string>> = {
  builtin: 'the built-in predictor',
  command: "the experiment's own command",
  url: 'a running server',
  imported: 'the server measured by another tool',
  tfserving: 'TensorFlow Serving',
  triton: 'NVIDIA Triton',
  vllm: 'vLLM',
  sglang: 'SGLang',
  tgi: 'Text Generation Inference',
  'tensorrt-llm': 'TensorRT-LLM',
  mlserver: 'MLServer',
  ray: 'Ray Serve',
}

/** Programs by which a command of the user's own is known for one of the servers. */
const programs: Readonly<Partial<Record<DeployedServer, string>>> = {
  tfserving: 'tensorflow_model_server',
  triton: 'tritonserver',
  vllm: 'vllm',
  sglang: 'sglang.launch_server',
  tgi: 'text-generation-launcher',
  'tensorrt-llm': 'trtllm-serve',
  mlserver: 'mlserver',
  ray: 'serve',
}

/** Whether that server was measured: as such, or as a command of the user's own. */
export const wasMeasured = (
  { server, command = [] }: MeasuredWith,
  deployed: DeployedServer,
): boolean =>
  server === deployed ||
  (server === 'command' &&
    findProgramName(command) !== undefined &&
    findProgramName(command) === programs[deployed])

/**
 * The known server that a command starts, wherever in its words; undefined for another. `serve` of
 * Ray stands for it as the first word alone, for other programs have such a command too.
 */
export function recogniseCommandServer(words: readonly string[]): DeployedServer | undefined {
  const names = words.map((word) => word.split('/').at(-1)!)
  const [first, second] = names
  if (first === 'tune' && second === 'predictor') return 'builtin'
  const known = Object.entries(programs).find(
    ([server, program]) => server !== 'ray' && names.includes(program),
  )
  if (known) return known[0] as DeployedServer
  if (names.some((name) => name.startsWith('vllm.entrypoints'))) return 'vllm'
  return first === programs.ray ? 'ray' : undefined
}

/** Of 'python3 -m sglang.launch_server' the module. */
const findProgramName = ([program, flag, module]: readonly string[]): string | undefined =>
  flag === '-m' ? module : program?.split('/').at(-1)

const titleOf = (server: DeployedServer, engine?: string): string =>
  engine === undefined || engine === 'emulated'
    ? serverTitles[server]
    : `${serverTitles[server]} with ENGINE=${engine}`

/**
 * What deploys where the user names nothing else: the server that was measured; of what was only
 * emulated the one that it stands for.
 */
export function resolveDeployed({
  server,
  engine,
  runsIn,
  modelKind,
  standsFor = 'vllm',
}: MeasuredWith): Pick<Deployed, 'server' | 'engine'> {
  if (server !== 'builtin') return { server }
  if (engine === 'gguf') return { server, engine }
  if (modelKind === 'decoder') return { server: standsFor }
  return { server, engine: engine === 'onnx' ? 'onnx' : (runsIn ?? 'tfjs') }
}

/**
 * How the figures of a measurement stand to what is deployed.
 * @param deploys what is deployed, in words, where its server's name does not say it
 */
export function classifyFigures(
  measured: MeasuredWith,
  deployed: Deployed,
  deploys: string = titleOf(deployed.server, deployed.engine),
): Figures {
  const { how, server, engine, gpu = 'CPU', url } = measured
  const doubts: string[] = []
  if (how === 'imported')
    doubts.push(
      `imported from another tool, which does not record how its server was started; this deploys ${deploys}`,
    )
  else if (how === 'simulated')
    doubts.push(
      `simulated with a ${modelledAs(measured)}, no server was launched; this deploys ${deploys}`,
    )
  else if (how === 'emulated') {
    const tables =
      measured.modelKind === 'decoder' ? '' : ' calibrated on TensorRT and framework tables'
    doubts.push(
      `emulated, the GPU time of the ${gpu} came from a ${modelledAs(measured)}${tables}; this deploys ${deploys}`,
    )
  } else if (
    !wasMeasured(measured, deployed.server) ||
    (engine !== undefined && deployed.engine !== engine)
  ) {
    doubts.push(`measured with ${titleOf(server, engine)}; this deploys ${deploys}`)
  } else if (server === 'url') {
    doubts.push(
      `measured at ${url ?? 'an address'}, a running server whose start command, resources and replicas are unknown`,
    )
  }
  if (measured.acceptance !== undefined)
    doubts.push(
      `the acceptance probability of ${measured.acceptance} of a draft token is assumed (predictor.acceptance)`,
    )
  const remarks = how === 'measured' ? weightRemarks(measured, deployed) : []
  return { how, hold: doubts.length === 0, doubts, remarks }
}

/**
 * A language model's server is modelled whole: another one's figures are not those of what deploys.
 */
const modelledAs = ({ modelKind, standsFor = 'vllm', gpu = 'CPU' }: MeasuredWith): string =>
  modelKind === 'decoder'
    ? `model of ${serverTitles[standsFor]} on ${gpu}`
    : `device model of the ${gpu}`

function weightRemarks(
  { weights, model, weightsPath }: MeasuredWith,
  deployed: Deployed,
): string[] {
  if (weights === 'random')
    return [
      `measured with random weights of ${model}: other weights of this architecture perform the same, another architecture does not`,
    ]
  if (weightsPath !== undefined && deployed.weights === 'given')
    return [
      `measured with the weights of ${weightsPath}: the model URI must contain the same weights`,
    ]
  return []
}

/** The heading of figures that do not hold for what is deployed. */
export const foreignFigures = 'FIGURES ARE FROM ANOTHER SERVER THAN THIS DEPLOYS'

/** One word for an annotation: where the figures come from. */
export const nameFigures = ({ how, hold }: Figures): Provenance | 'of-another-server' =>
  how !== 'measured' ? how : hold ? 'measured' : 'of-another-server'

/** The command that measures a rate at one address under an SLO again. */
export function verifyCommand(service: VerifiableService): string {
  const word = (text: string) => (/^[\w./:-]+$/.test(text) ? text : quoteText(text))
  return `tune ${verifyArguments(service).map(word).join(' ')}`
}

/** Arguments of `tune` for the same. */
export function verifyArguments(service: VerifiableService): string[] {
  const { host, grpcPort = 8001, protocol, path, healthPath, body, model, rateRps, slo } = service
  const isGrpc = protocolTable[protocol].transport === 'grpc'
  const flags = {
    '--url': isGrpc ? `grpc://${host}:${grpcPort}` : `http://${host}`,
    '--protocol': protocol === defaultProtocol ? undefined : protocol,
    '--path': path,
    '--health-path': healthPath,
    '--body': body,
    '--model': model,
    '--rate': rateFlag(rateRps),
    '--slo': sloFlag(slo),
  }
  return [
    'verify',
    ...Object.entries(flags).flatMap(([flag, text]) => (text === undefined ? [] : [flag, text])),
  ]
}

export interface VerifiableService extends Pick<MeasuredWith, 'path' | 'healthPath' | 'body'> {
  readonly host: string
  readonly grpcPort?: number
  readonly protocol: ProtocolName
  readonly model: string
  readonly rateRps: number
  readonly slo: Slo
}

/** Asked of a URL where nothing else is said. */
const defaultProtocol: ProtocolName = 'oip-v2'

/** In which a server is asked: as it was measured, where it speaks that. */
export function protocolOfServer(server: DeployedServer, measured: ProtocolName): ProtocolName {
  const spoken = speaks[server]
  return spoken === undefined || spoken.includes(measured) ? measured : spoken[0]!
}

const speaks: Readonly<Partial<Record<DeployedServer, readonly ProtocolName[]>>> = {
  tfserving: ['tfserving', 'tfserving-grpc'],
  triton: ['oip-v2', 'grpc-v2'],
  mlserver: ['oip-v2', 'grpc-v2'],
  vllm: ['openai'],
  sglang: ['openai'],
  tgi: ['openai'],
  'tensorrt-llm': ['openai'],
}

/**
 * For a verdict: what would be deployed where that is not what was measured, and how to check it;
 * undefined where the figures hold.
 * @param measured of the recommended configuration
 */
export function deployNotice(measured: MeasuredWith): string | undefined {
  const { server, engine } = resolveDeployed(measured)
  if (classifyFigures(measured, { server, engine, weights: 'given' }).hold) return undefined
  return `tune spec deploys ${titleOf(server, engine)}, which was not measured: check these figures with tune verify --url once it runs.`
}

/** Rounded down to what a flag says without an exponent. */
const rateFlag = (rps: number): string =>
  `${rps >= 10 ? Math.floor(rps) : Math.floor(rps * 1000) / 1000}rps`

const quoteText = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`
