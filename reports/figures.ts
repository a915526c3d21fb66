/**
 * Decides whether measured figures apply to a deployment: compares the measured server with the
 * deployed one, and writes the command that verifies the deployment.
 */

import { type Slo, sloFlag } from '../profiler/model/slo.ts'
import { type ProtocolName, protocolTable } from '../profiler/protocols/protocol-table.ts'
import type { MeasuredServer, MeasuredWith } from '../trials/measured-with.ts'
import { languageServers } from '../trials/servers/server-kinds.ts'
import type { Provenance } from '../trials/types.ts'

/** Servers that a spec may start instead of the measured one. */
export const selectableServers = ['tfserving', 'triton', 'mlserver', ...languageServers] as const

export type DeployedServer = MeasuredServer | (typeof selectableServers)[number] | 'ray'

/** The server that a spec starts. */
export interface Deployed {
  readonly server: DeployedServer
  /** Engine of the built-in predictor. */
  readonly engine?: 'tfjs' | 'onnx' | 'gguf'
  /**
   * 'given': the user named their location. 'missing': a placeholder, with which the server does
   * not start. 'own': the server finds them itself.
   */
  readonly weights: 'given' | 'missing' | 'own'
}

/** How the measured figures relate to a deployment. */
export interface Figures {
  readonly provenance: Provenance
  /**
   * Whether the deployed server is the measured one, so that scaling targets and deadlines may be
   * derived from the figures.
   */
  readonly apply: boolean
  /** Why the figures do not apply, a clause each. */
  readonly mismatches: readonly string[]
  /** Differences that change no figure by themselves, a clause each. */
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

/** Programs by which a user's command is recognised as one of the servers. */
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

/** Whether this server was measured, by its preset or as a user's command. */
export const wasMeasured = (
  { server, command = [] }: MeasuredWith,
  deployed: DeployedServer,
): boolean =>
  server === deployed ||
  (server === 'command' &&
    findProgramName(command) !== undefined &&
    findProgramName(command) === programs[deployed])

/**
 * Finds the known server that a command starts, by a program name anywhere in it. `serve` means Ray
 * only as the first word, because other programs have a command of that name too.
 * @returns undefined for an unknown server
 */
export function recogniseCommandServer(words: readonly string[]): DeployedServer | undefined {
  const names = words.map((word) => word.split('/').at(-1)!)
  const [first, second] = names
  if (first === 'tune' && second === 'predictor') return 'builtin'
  const match = Object.entries(programs).find(
    ([server, program]) => server !== 'ray' && names.includes(program),
  )
  if (match) return match[0] as DeployedServer
  if (names.some((name) => name.startsWith('vllm.entrypoints'))) return 'vllm'
  return first === programs.ray ? 'ray' : undefined
}

/** Finds the program of a command; for 'python3 -m sglang.launch_server', the module. */
const findProgramName = ([program, flag, module]: readonly string[]): string | undefined =>
  flag === '-m' ? module : program?.split('/').at(-1)

const formatServerTitle = (server: DeployedServer, engine?: string): string =>
  engine === undefined || engine === 'emulated'
    ? serverTitles[server]
    : `${serverTitles[server]} with ENGINE=${engine}`

/**
 * Resolves the server to deploy by default: the measured one, or for an emulated server the one
 * that it stands for.
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
 * Classifies how the figures of a measurement relate to a deployment.
 * @param deploys description of the deployed server. Default: its title
 */
export function classifyFigures(
  measured: MeasuredWith,
  deployed: Deployed,
  deploys: string = formatServerTitle(deployed.server, deployed.engine),
): Figures {
  const { how, server, engine, gpu = 'CPU', url } = measured
  const mismatches: string[] = []
  if (how === 'imported')
    mismatches.push(
      `imported from another tool, which does not record how its server was started; this deploys ${deploys}`,
    )
  else if (how === 'simulated')
    mismatches.push(
      `simulated with a ${describeServerModel(measured)}, no server was launched; this deploys ${deploys}`,
    )
  else if (how === 'emulated') {
    const tables =
      measured.modelKind === 'decoder' ? '' : ' calibrated on TensorRT and framework tables'
    mismatches.push(
      `emulated, the GPU time of the ${gpu} came from a ${describeServerModel(measured)}${tables}; this deploys ${deploys}`,
    )
  } else if (
    !wasMeasured(measured, deployed.server) ||
    (engine !== undefined && deployed.engine !== engine)
  ) {
    mismatches.push(`measured with ${formatServerTitle(server, engine)}; this deploys ${deploys}`)
  } else if (server === 'url') {
    mismatches.push(
      `measured at ${url ?? 'an address'}, a running server whose start command, resources and replicas are unknown`,
    )
  }
  if (measured.acceptance !== undefined)
    mismatches.push(
      `the acceptance probability of ${measured.acceptance} of a draft token is assumed (predictor.acceptance)`,
    )
  const remarks = how === 'measured' ? listWeightRemarks(measured, deployed) : []
  return { provenance: how, apply: mismatches.length === 0, mismatches, remarks }
}

/**
 * Describes the model behind a simulated or emulated server; of language models, the whole server.
 */
const describeServerModel = ({
  modelKind,
  standsFor = 'vllm',
  gpu = 'CPU',
}: MeasuredWith): string =>
  modelKind === 'decoder'
    ? `model of ${serverTitles[standsFor]} on ${gpu}`
    : `device model of the ${gpu}`

function listWeightRemarks(
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

/** Heading of the mismatches. */
export const mismatchHeading = 'FIGURES ARE FROM ANOTHER SERVER THAN THIS DEPLOYS'

/**
 * One word for an annotation: the provenance of the figures, or that they are of another server.
 */
export const formatFiguresStatus = ({
  provenance,
  apply,
}: Figures): Provenance | 'of-another-server' =>
  provenance !== 'measured' ? provenance : apply ? 'measured' : 'of-another-server'

/** Formats the `tune verify` command that measures a deployed service at a rate, under an SLO. */
export function formatVerifyCommand(target: VerifyTarget): string {
  const quoteIfNeeded = (text: string) => (/^[\w./:-]+$/.test(text) ? text : quoteText(text))
  return `tune ${listVerifyArguments(target).map(quoteIfNeeded).join(' ')}`
}

/** Lists the arguments of that command. */
export function listVerifyArguments(target: VerifyTarget): string[] {
  const { host, grpcPort = 8001, protocol, path, healthPath, body, model, rateRps, slo } = target
  const isGrpc = protocolTable[protocol].transport === 'grpc'
  const flags = {
    '--url': isGrpc ? `grpc://${host}:${grpcPort}` : `http://${host}`,
    '--protocol': protocol === defaultProtocol ? undefined : protocol,
    '--path': path,
    '--health-path': healthPath,
    '--body': body,
    '--model': model,
    '--rate': formatRateFlag(rateRps),
    '--slo': sloFlag(slo),
  }
  return [
    'verify',
    ...Object.entries(flags).flatMap(([flag, text]) => (text === undefined ? [] : [flag, text])),
  ]
}

/** A deployed service, and the rate to send to it. */
export interface VerifyTarget extends Pick<MeasuredWith, 'path' | 'healthPath' | 'body'> {
  readonly host: string
  readonly grpcPort?: number
  readonly protocol: ProtocolName
  readonly model: string
  readonly rateRps: number
  readonly slo: Slo
}

/** Protocol of `tune verify --url` without --protocol. */
const defaultProtocol: ProtocolName = 'oip-v2'

/** Resolves the protocol to verify a server with: the measured one if the server supports it. */
export function resolveServerProtocol(
  server: DeployedServer,
  measured: ProtocolName,
): ProtocolName {
  const supported = supportedProtocols[server]
  return supported === undefined || supported.includes(measured) ? measured : supported[0]!
}

/** Protocols of each server, the preferred one first; absent: unknown. */
const supportedProtocols: Readonly<Partial<Record<DeployedServer, readonly ProtocolName[]>>> = {
  tfserving: ['tfserving', 'tfserving-grpc'],
  triton: ['oip-v2', 'grpc-v2'],
  mlserver: ['oip-v2', 'grpc-v2'],
  vllm: ['openai'],
  sglang: ['openai'],
  tgi: ['openai'],
  'tensorrt-llm': ['openai'],
}

/**
 * Describes, for a verdict, the server that would be deployed if it is not the measured one, and
 * how to check it.
 * @param measured what the recommended configuration was measured with
 * @returns undefined if the figures apply
 */
export function describeDeployment(measured: MeasuredWith): string | undefined {
  const { server, engine } = resolveDeployed(measured)
  if (classifyFigures(measured, { server, engine, weights: 'given' }).apply) return undefined
  return `tune spec deploys ${formatServerTitle(server, engine)}, which was not measured: check these figures with tune verify --url once it runs.`
}

/** Rounds down to three decimals, or to a whole number from 10 on: a flag has no exponent. */
const formatRateFlag = (rps: number): string =>
  `${rps >= 10 ? Math.floor(rps) : Math.floor(rps * 1000) / 1000}rps`

const quoteText = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`
