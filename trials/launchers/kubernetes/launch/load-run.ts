/** Runs a load Job in the cluster and passes on its output, line by line. */
import { randomBytes } from 'node:crypto'
import { StringDecoder } from 'node:string_decoder'
import type { V1Pod } from '@kubernetes/client-node'
import { createAnswerTooLongError, getMaxAnswerBytes } from '../../../../profiler/bounded-reader.ts'
import { LaunchError } from '../../../types.ts'
import type { Api } from '../api/api.ts'
import { removeObject } from '../cleanup/sweep.ts'
import { createLoadJob, type LoadJobOptions } from '../manifests/load-job.ts'
import { createLabels, type Json, loadContainer } from '../manifests/manifests.ts'
import { followLog } from '../watch/pod-log.ts'
import { addPullCause, type PodState, readPodState } from '../watch/pod-state.ts'
import type { PodWatch } from '../watch/pod-watch.ts'
import { listPlacedPredictors, willOtherTrialsEnd } from '../watch/trial-pods.ts'
import { classifyJobRefusal, listWarnings } from './failures.ts'
import { describeLoss, type ExplainLoss } from './lost-pod.ts'
import { defaultStartTimeouts, type StartTimeouts, waitUntilRunning } from './wait-until-running.ts'

export interface LoadRunOptions extends Omit<LoadJobOptions, 'name' | 'labels'> {
  readonly api: Api
  readonly watch: PodWatch
  readonly experimentId: string
  readonly trial: number
  /**
   * Returns true for the last line: the end of the pod is then not awaited, which nodes report a
   * second or more late.
   */
  readonly onLine: (line: string) => boolean
  readonly explainLoss: ExplainLoss
  readonly timeouts?: Partial<StartTimeouts>
  /** @param what what it waits for */
  readonly onWaiting?: (what: string) => void
}

/** Linux limits one environment variable to 128 KiB (MAX_ARG_STRLEN). */
const maxTaskBytes = 128 * 1024 - 64

/** Plans the manifest of the Job, also for a dry run. */
export const planLoadJob = (
  options: Omit<LoadRunOptions, 'api' | 'watch' | 'onLine' | 'explainLoss'>,
  name: string,
): Json =>
  createLoadJob({
    ...options,
    name,
    labels: createLabels(options.experimentId, 'load', options.trial),
  })

/**
 * Resolves after the last line, or with the exit code after the end of the pod and all its lines.
 * The Job is always deleted.
 * @throws LaunchError when it does not run, ApiError, the signal's reason
 */
export async function runLoad(
  options: LoadRunOptions,
  signal: AbortSignal,
): Promise<number | undefined> {
  const { api, watch, trial, onLine, onWaiting } = options
  const taskBytes = Buffer.byteLength(options.task ?? '')
  if (taskBytes > maxTaskBytes) {
    throw new LaunchError(
      `the task of the load generator has ${Math.ceil(taskBytes / 1024)} KiB, more than the limit of 128 KiB`,
      'use a shorter trace, or set kubernetes: {loadFrom: port-forward}',
    )
  }
  const name = `tune-${options.experimentId}-${options.trial}-load-${randomBytes(3).toString('hex')}`
  const body = planLoadJob(options, name)
  const over = new AbortController()
  let observed = false
  let node: string | undefined
  const findJobPod = () => {
    const pod = watch
      .all()
      .find(
        ({ metadata }) =>
          (metadata?.labels?.['batch.kubernetes.io/job-name'] ?? metadata?.labels?.['job-name']) ===
          name,
      )
    observed ||= pod !== undefined
    node = pod?.spec?.nodeName ?? node
    return pod
  }
  const readState = (): PodState => {
    const pod = findJobPod()
    if (pod) return readPodState(pod, loadContainer)
    return observed
      ? { kind: 'lost', what: 'it is gone: its deadline passed, or another program removed it' }
      : { kind: 'starting', scheduled: false }
  }
  const getExitCode = () => {
    const now = readState()
    if (now.kind === 'ended') return now.code
    if (now.kind === 'broken' || now.kind === 'lost') throw createLoadError(now)
    return undefined
  }
  try {
    await watch.events.begin()
    watch.trialsWaitingForPods.add(trial)
    await api.request('POST', `/apis/batch/v1/namespaces/${api.namespace}/jobs`, { body, signal })
    const pod = await waitForJobPod(options, name, findJobPod, signal)
    const template = (body.spec as { template: Json }).template
    await waitUntilRunning({
      api,
      watch,
      name: pod.metadata!.name!,
      state: () => {
        const now = readState()
        // It may have ended before the watch noticed; its log is complete.
        return now.kind === 'ended' ? { kind: 'running', ip: '' } : now
      },
      explainEnd: async () =>
        createLoadError(
          addPullCause(
            readState(),
            await watch.events.listEvents(pod.metadata!.name!, signal).catch(() => []),
          ),
        ),
      requested: template,
      concurrentPods: () => listPlacedPredictors(watch, trial),
      willOthersEnd: () => willOtherTrialsEnd(watch, trial),
      onWaiting,
      timeouts: { ...defaultStartTimeouts, ...options.timeouts },
      signal,
    })
    watch.trialsWaitingForPods.delete(trial)
    const lines = createLineReader(onLine, () => over.abort(new Error('all was said')))
    const reading = AbortSignal.any([signal, over.signal])
    const logged = followLog(
      api,
      pod.metadata!.name!,
      loadContainer,
      lines.write,
      () => readState().kind !== 'running',
      reading,
    )
    const code = await watch.until(getExitCode, reading).catch((error: unknown) => {
      if (signal.aborted || !over.signal.aborted) throw error
      return undefined
    })
    await logged
    lines.end()
    return code
  } catch (error) {
    // The predictor ran, so the trial is not retried as unscheduled.
    if (error instanceof LaunchError && error.unplaced)
      throw new LaunchError(
        `the load generator's pod is ${error.message}`,
        error.hint,
        undefined,
        error.final,
      )
    const now = readState()
    if (signal.aborted || now.kind !== 'lost') throw error
    const { what, hint, final } = await describeLoss(options.explainLoss, node, now.what)
    throw new LaunchError(`the load generator's pod: ${what}`, hint, undefined, final)
  } finally {
    watch.trialsWaitingForPods.delete(trial)
    await removeObject(api, { kind: 'jobs', name })
    watch.events.forget(name)
  }
}

/**
 * How long a Job may stay without a pod, ms: without a reported reason, and because other pods use
 * up a quota.
 */
const [maxUnexplainedMs, maxQuotaMs] = [60_000, 10 * 60_000]

/**
 * Waits for the pod of a Job.
 * @throws LaunchError with the cluster's message if it creates none, or none in time
 */
async function waitForJobPod(
  { watch, trial, timeouts, onWaiting }: LoadRunOptions,
  name: string,
  podOfJob: () => V1Pod | undefined,
  signal: AbortSignal,
) {
  const gaveUp = new AbortController()
  const startedMs = performance.now()
  let othersMs = startedMs
  let waitedFor: string | undefined
  const check = async () => {
    // Without permission to read events, only the time limit applies.
    const warnings = listWarnings(await watch.events.listEvents(name, signal).catch(() => []))
    const refusal = classifyJobRefusal(warnings, listPlacedPredictors(watch, trial))
    if (refusal?.kind === 'final') return gaveUp.abort(refusal.error)
    const nowMs = performance.now()
    if (willOtherTrialsEnd(watch, trial)) othersMs = nowMs
    if (refusal !== undefined && waitedFor !== refusal.what) {
      waitedFor = refusal.what
      onWaiting?.(`quota for its load generator: ${refusal.what}`)
    }
    const overdue =
      refusal !== undefined &&
      nowMs - othersMs > { ...defaultStartTimeouts, ...timeouts }.unschedulableMs
    const maxMs = timeouts?.startMs ?? (refusal?.kind === 'busy' ? maxQuotaMs : maxUnexplainedMs)
    if (!overdue && nowMs - startedMs < maxMs) return
    const why = refusal?.what ?? 'run kubectl describe job to see why'
    const seconds = Math.round((nowMs - startedMs) / 1000)
    gaveUp.abort(new LaunchError(`the Job created no pod within ${seconds} s`, why))
  }
  const timer = setInterval(
    () => void check(),
    timeouts?.checkIntervalMs ?? defaultStartTimeouts.checkIntervalMs,
  )
  try {
    return await watch.until(podOfJob, AbortSignal.any([signal, gaveUp.signal]))
  } finally {
    clearInterval(timer)
  }
}

const createLoadError = (state: PodState): LaunchError =>
  new LaunchError(
    `the load generator's pod: ${describeState(state)}`,
    'hint' in state ? state.hint : undefined,
    undefined,
    'final' in state && state.final ? 'experiment' : undefined,
  )

const describeState = (state: PodState): string =>
  'what' in state ? state.what : 'why' in state ? state.why : state.kind

const createLineReader = (onLine: (line: string) => boolean, onLast: () => void) => {
  const decoder = new StringDecoder('utf8')
  let rest = ''
  return {
    write: (chunk: Buffer) => {
      const lines = (rest + decoder.write(chunk)).split('\n')
      rest = lines.pop()!
      if (rest.length > getMaxAnswerBytes()) throw createAnswerTooLongError(getMaxAnswerBytes())
      for (const line of lines) if (onLine(line)) onLast()
    },
    end: () => {
      if (rest !== '') onLine(rest)
    },
  }
}
