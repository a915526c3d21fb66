/** Probes a server, which is running or started like in a trial. */
import { join } from 'node:path'
import { ProtocolError } from '../../../../profiler/profiler-errors.ts'
import { checkReachable, checkReadiness } from '../../../../profiler/protocols/http.ts'
import { protocolFor } from '../../../../profiler/protocols/index.ts'
import type { OnReason, Protocol } from '../../../../profiler/protocols/protocol.ts'
import type { ProtocolOptions } from '../../../../profiler/protocols/protocol-module.ts'
import {
  fallbackProtocol,
  type ProtocolName,
  protocolNames,
  protocolTable,
} from '../../../../profiler/protocols/protocol-table.ts'
import { explainUnrecognised, recognise } from '../../../../profiler/protocols/recognise.ts'
import { diagnoseScheme } from '../../../../profiler/protocols/wrong-scheme.ts'
import { createLocalLauncher } from '../../../../trials/launchers/local/local-launcher.ts'
import type { MachineFacts } from '../../../../trials/machine/machine-facts.ts'
import { redactSecrets } from '../../../../trials/secrets.ts'
import { createMemoryStore } from '../../../../trials/store/index.ts'
import { createProtocol } from '../../../backends/predictor-protocol.ts'
import { fillSecrets } from '../../../config/secret-values.ts'
import type { Experiment } from '../../../config/types.ts'
import { assemble } from '../../../run/assemble.ts'
import { type DiscoveredServer, discover } from './discover.ts'

/** Settings of the user, without placeholders. */
interface UserChoices {
  readonly protocol?: string
  readonly model?: string
  readonly path?: string
}

/**
 * Finds out how a server is called, which is started first if it is a command.
 * @param draft with placeholders for missing settings
 * @throws ProtocolError, LaunchError, InfeasibleError
 */
export async function probeServer(
  draft: Experiment,
  choices: UserChoices,
  machine: MachineFacts,
  signal: AbortSignal,
): Promise<DiscoveredServer> {
  const experiment = fillSecrets(draft)
  const { predictor, load } = experiment
  const protocol = protocolNames.find((name) => name === choices.protocol)
  const options: ProtocolOptions = {
    ...createProtocol(experiment).options,
    path: choices.path,
    timeoutMs: undefined,
  }
  const request = { protocol, model: choices.model, options, payload: load.payload }
  if (predictor.kind === 'url') return discover({ ...request, url: predictor.url }, signal)
  if (predictor.kind !== 'command') throw new Error(`a ${predictor.kind} predictor needs no asking`)
  let discovered: DiscoveredServer | undefined
  const discovering: Protocol = {
    name: protocol ?? 'json',
    isReady: (url, model, until, onReason) =>
      isAnswering({ url, model, protocol, options }, until, onReason),
    explainNeverReady: async (url, _model, until) =>
      (await diagnoseScheme(url, until)) ?? (await explainUnknownGrpc(url, options, until)),
    prepare: async (url, _model, _payload, until) => {
      discovered = await discover({ ...request, url }, until)
      return discovered.target
    },
  }
  const parts = await assemble(draft, 'init', createMemoryStore(), machine)
  try {
    process.stderr.write(`Starting ${redactSecrets(predictor.command.join(' '))}\n`)
    const runDirectory = join(experiment.dbPath, '..', 'init')
    const { parameters } = experiment.space
    const launcher = createLocalLauncher({
      template: predictor,
      parameters,
      protocol: discovering,
      payload: load.payload,
      runDirectory,
      machine,
    })
    const started = await launcher.launch(parts.defaultConfiguration ?? {}, 1, signal)
    await started.stop()
    return discovered!
  } finally {
    await parts.backend.close()
  }
}

interface StartedServer {
  readonly url: string
  readonly model: string
  readonly protocol: ProtocolName | undefined
  readonly options: ProtocolOptions
}

/**
 * Whether the server answers: any HTTP answer, a known gRPC protocol, or the readiness of a
 * configured one.
 */
async function isAnswering(
  { url, model, protocol, options }: StartedServer,
  signal: AbortSignal,
  onReason?: OnReason,
): Promise<boolean> {
  if (protocol !== undefined && protocolTable[protocol].transport === 'grpc')
    return protocolFor(protocol, options).isReady(url, model, signal, onReason)
  const name = protocol ?? fallbackProtocol
  let lastReason = ''
  const { status, loading } = await checkReadiness(name, url, options, signal, (reason) => {
    lastReason = reason
  })
  if (loading) onReason?.(lastReason)
  if (status !== undefined || (await recognise(url, model, options, signal)) !== undefined)
    return true
  try {
    await checkReachable(name, url, options, signal)
    return true
  } catch (error) {
    signal.throwIfAborted()
    if (!(error instanceof ProtocolError)) throw error
    // A refused connection only means that it does not listen yet.
    if (!/ECONNREFUSED/.test(error.message)) onReason?.(error.message)
    return false
  }
}

/** Explains a gRPC server with an unknown protocol; undefined for other servers. */
async function explainUnknownGrpc(
  url: string,
  options: ProtocolOptions,
  signal: AbortSignal,
): Promise<{ readonly what: string; readonly hint: string } | undefined> {
  const error = await explainUnrecognised(url, options, signal)
  return error instanceof ProtocolError && error.why === 'other-protocol'
    ? { what: error.message, hint: error.hint ?? '' }
    : undefined
}
