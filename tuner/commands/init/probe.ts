/** Asks a server what it is: one that runs, or one that is started for it as a trial would be. */
import { join } from 'node:path'
import { ProtocolError } from '../../../profiler/profiler-errors.ts'
import { checkReachable, checkReadiness } from '../../../profiler/protocols/http.ts'
import { protocolFor } from '../../../profiler/protocols/index.ts'
import type { OnReason, Protocol } from '../../../profiler/protocols/protocol.ts'
import type { ProtocolOptions } from '../../../profiler/protocols/protocol-module.ts'
import {
  fallbackProtocol,
  type ProtocolName,
  protocolNames,
  protocolTable,
} from '../../../profiler/protocols/protocol-table.ts'
import { explainUnrecognised, recognise } from '../../../profiler/protocols/recognise.ts'
import { diagnoseScheme } from '../../../profiler/protocols/wrong-scheme.ts'
import { createLocalLauncher } from '../../../trials/launchers/local/local-launcher.ts'
import type { MachineFacts } from '../../../trials/machine/machine-facts.ts'
import { redactSecrets } from '../../../trials/secrets.ts'
import { createMemoryStore } from '../../../trials/store/index.ts'
import { assemble } from '../../backends/assemble.ts'
import { protocolOf } from '../../backends/predictor-protocol.ts'
import { withSecretValues } from '../../config/secret-values.ts'
import type { Experiment } from '../../config/types.ts'
import { type Discovered, discover } from './discover.ts'

/** What the user said, not what stands in for it. */
interface Said {
  readonly protocol?: string
  readonly model?: string
  readonly path?: string
}

/** @param given with stand-ins where nothing was said @throws ProtocolError, LaunchError, InfeasibleError that say what is wrong */
export async function probe(
  given: Experiment,
  said: Said,
  machine: MachineFacts,
  signal: AbortSignal,
): Promise<Discovered> {
  const experiment = withSecretValues(given)
  const { predictor, load } = experiment
  const protocol = protocolNames.find((name) => name === said.protocol)
  const options: ProtocolOptions = {
    ...protocolOf(experiment).options,
    path: said.path,
    timeoutMs: undefined,
  }
  const asked = { protocol, model: said.model, options, payload: load.payload }
  if (predictor.kind === 'url') return discover({ ...asked, url: predictor.url }, signal)
  if (predictor.kind !== 'command') throw new Error(`a ${predictor.kind} predictor needs no asking`)
  let found: Discovered | undefined
  const discovering: Protocol = {
    name: protocol ?? 'json',
    ready: (url, model, until, onReason) =>
      answers({ url, model, protocol, options }, until, onReason),
    explainNeverReady: async (url, _model, until) =>
      (await diagnoseScheme(url, until)) ?? (await unknownOverGrpc(url, options, until)),
    prepare: async (url, _model, _payload, until) => {
      found = await discover({ ...asked, url }, until)
      return found.target
    },
  }
  const parts = await assemble(given, 'init', createMemoryStore(), machine)
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
    return found!
  } finally {
    await parts.backend.close()
  }
}

interface Started {
  readonly url: string
  readonly model: string
  readonly protocol: ProtocolName | undefined
  readonly options: ProtocolOptions
}

/** Over HTTP whatever it answers, over gRPC a protocol of ours; of a named one its readiness. */
async function answers(
  { url, model, protocol, options }: Started,
  signal: AbortSignal,
  onReason?: OnReason,
): Promise<boolean> {
  if (protocol !== undefined && protocolTable[protocol].transport === 'grpc')
    return protocolFor(protocol, options).ready(url, model, signal, onReason)
  const name = protocol ?? fallbackProtocol
  let said = ''
  const { status, loading } = await checkReadiness(name, url, options, signal, (reason) => {
    said = reason
  })
  if (loading) onReason?.(said)
  if (status !== undefined || (await recognise(url, model, options, signal)) !== undefined)
    return true
  try {
    await checkReachable(name, url, options, signal)
    return true
  } catch (error) {
    signal.throwIfAborted()
    if (!(error instanceof ProtocolError)) throw error
    // Until it listens there is nothing to be said.
    if (!/ECONNREFUSED/.test(error.message)) onReason?.(error.message)
    return false
  }
}

/** What to say of a gRPC server that has none of the protocols; undefined where it is none. */
async function unknownOverGrpc(
  url: string,
  options: ProtocolOptions,
  signal: AbortSignal,
): Promise<{ readonly what: string; readonly hint: string } | undefined> {
  const error = await explainUnrecognised(url, options, signal)
  return error instanceof ProtocolError && error.why === 'other-protocol'
    ? { what: error.message, hint: error.hint ?? '' }
    : undefined
}
