/** Waits until a started predictor serves, or finds out why it does not. */
import { NeverReadyError, prepareOnceReady } from '../../../profiler/protocols/until-serving.ts'
import { InfeasibleError } from '../../types.ts'
import type { Announcement } from '../builtin.ts'
import { describeExit, type Exit, reportsTakenPort } from '../diagnosis.ts'
import {
  createBadAnswerError,
  createLocalExitError,
  createNeverReadyError,
  PortTakenError,
} from '../failure.ts'
import { awaitWithDeadline } from '../readiness.ts'
import { defaultReadyTimeoutS } from '../template.ts'
import { host, type Launch, type LocalLauncherOptions } from './launch.ts'
import { areListenersForeign, countListeningSockets, listPorts } from './processes.ts'
import { findInstallHint, type StartedProcess } from './start-process.ts'

export interface ServingPredictor {
  readonly target: Awaited<ReturnType<typeof prepareOnceReady>>
  readonly provenance: Announcement['provenance']
  readonly httpUrl: string
}

/**
 * @throws PortTakenError if another server has its port; InfeasibleError and LaunchError for any
 * other reason; the signal's reason
 */
export async function waitUntilServing(
  { options, signal, onWaiting }: Launch,
  started: StartedProcess,
): Promise<ServingPredictor> {
  const { template, protocol, payload } = options
  const { group, announced } = started
  const timeoutMs = (template.readyTimeoutS ?? defaultReadyTimeoutS) * 1000
  const deadlineMs = performance.now() + timeoutMs
  const ended = new AbortController()
  group.exited.then((exit) => ended.abort(exit))
  const until = AbortSignal.any([signal, ended.signal])
  const listGroupPids = () => group.members().map(({ pid }) => pid)
  let isTaken = () => false
  try {
    const { port, grpcPort, provenance } = await awaitWithDeadline(announced, timeoutMs, until)
    isTaken = () => isPortTaken(port, started)
    const endpoint = {
      protocol,
      url: `http://${host}:${grpcPort ?? port}`,
      model: template.model,
      payload,
      otherPorts: () =>
        template.kind === 'builtin'
          ? []
          : listPorts(listGroupPids()).filter((other) => other !== port),
      onReason: (reason: string) => onWaiting?.(reason, 'loading'),
    }
    const target = await prepareOnceReady(endpoint, deadlineMs - performance.now(), until)
    if (isTaken()) throw new PortTakenError(`another server answers on port ${port}`)
    return { target, provenance, httpUrl: `http://${host}:${port}` }
  } catch (error) {
    signal.throwIfAborted()
    const exit = ended.signal.aborted ? (ended.signal.reason as Exit) : undefined
    const failure = explainFailure(error, exit, options, started)
    const isItsOwn =
      failure instanceof PortTakenError ||
      (failure instanceof InfeasibleError && failure.reason === 'out-of-memory')
    // The server that answered badly, or not at all, was another one.
    throw !isItsOwn && isTaken()
      ? new PortTakenError(`another server uses its port; ${failure.message}`)
      : failure
  }
}

/** @param exit where the predictor has ended */
function explainFailure(
  error: unknown,
  exit: Exit | undefined,
  { template, parameters }: LocalLauncherOptions,
  { diagnose, log }: StartedProcess,
): Error {
  if (error instanceof PortTakenError) return error
  if (exit !== undefined) {
    const install = findInstallHint(template)
    // Another configuration may do better only where its values reach the server.
    const isTuned = parameters.some(({ category }) => category !== 'resource')
    const finality = install === undefined && isTuned ? 'configuration' : 'experiment'
    return createLocalExitError(diagnose(exit), describeExit(exit), log, finality, install)
  }
  if (error instanceof NeverReadyError)
    return createNeverReadyError(diagnose(undefined), error, log)
  // Any other error is not about the predictor, e.g. a payload file that cannot be read.
  if (!(error instanceof Error) || error.name !== 'ProtocolError') throw error
  return createBadAnswerError(error, log)
}

/** Whether another server listens on the port, in addition to or instead of the predictor. */
function isPortTaken(port: number, { group, log }: StartedProcess): boolean {
  const pids = group.members().map(({ pid }) => pid)
  const listeners = countListeningSockets(port, pids)
  if (listeners === undefined || listeners.total === 0) return false
  if (listeners.byCandidates > 0) return listeners.byCandidates < listeners.total
  return reportsTakenPort(log.tail(200)) || areListenersForeign(port, group.identity)
}
