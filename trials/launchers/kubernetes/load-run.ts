/** Runs a load Job in the cluster and hands on what it prints, line by line. */
import { randomBytes } from 'node:crypto'
import { StringDecoder } from 'node:string_decoder'
import type { V1Pod } from '@kubernetes/client-node'
import { createAnswerTooLongError, maxAnswerBytes } from '../../../profiler/bounded-reader.ts'
import { LaunchError } from '../../types.ts'
import type { Api } from './api.ts'
import { jobPodRefused, warningsIn } from './failures.ts'
import { type LoadJob, loadJob } from './load-job.ts'
import { describeLoss, type ExplainLoss } from './lost-pod.ts'
import { type Json, labelsOf, loadContainer } from './manifests.ts'
import { followLog } from './pod-log.ts'
import { type PodState, podState, withPullCause } from './pod-state.ts'
import type { PodWatch } from './pod-watch.ts'
import { defaultStartPatience, type StartPatience, untilRunning } from './start.ts'
import { remove } from './sweep.ts'
import { otherTrialsEndBeforeLoad, placedPredictors } from './trial-pods.ts'

export interface LoadRunOptions extends Omit<LoadJob, 'name' | 'labels'> {
  readonly api: Api
  readonly watch: PodWatch
  readonly experimentId: string
  readonly trial: number
  /**
   * True: that was the last line, and its pod's end is not waited for (a node tells of it a second
   * or more later).
   */
  readonly onLine: (line: string) => boolean
  readonly explainLoss: ExplainLoss
  readonly patience?: Partial<StartPatience>
  /** @param what it waits for, in words */
  readonly onWaiting?: (what: string) => void
}

/** Linux takes no longer text as one variable of an environment (MAX_ARG_STRLEN). */
const mostTaskBytes = 128 * 1024 - 64

/** The Job as it is sent; also for a dry run. */
export const loadJobOf = (
  options: Omit<LoadRunOptions, 'api' | 'watch' | 'onLine' | 'explainLoss'>,
  name: string,
): Json =>
  loadJob({ ...options, name, labels: labelsOf(options.experimentId, 'load', options.trial) })

/**
 * Resolves once the last line was handed on, or with the exit code once the Job's pod has ended and
 * every line it printed was; the Job is deleted, whatever happened.
 * @throws LaunchError when it does not run, ApiError, the signal's reason
 */
export async function runLoad(
  options: LoadRunOptions,
  signal: AbortSignal,
): Promise<number | undefined> {
  const { api, watch, trial, onLine, onWaiting } = options
  const taskBytes = Buffer.byteLength(options.task ?? '')
  if (taskBytes > mostTaskBytes) {
    throw new LaunchError(
      `the task of the load generator has ${Math.ceil(taskBytes / 1024)} KiB, more than the limit of 128 KiB`,
      'use a shorter trace, or set kubernetes: {loadFrom: port-forward}',
    )
  }
  const name = `tune-${options.experimentId}-${options.trial}-load-${randomBytes(3).toString('hex')}`
  const body = loadJobOf(options, name)
  const over = new AbortController()
  let seen = false
  let node: string | undefined
  const podOfJob = () => {
    const pod = watch
      .all()
      .find(
        ({ metadata }) =>
          (metadata?.labels?.['batch.kubernetes.io/job-name'] ?? metadata?.labels?.['job-name']) ===
          name,
      )
    seen ||= pod !== undefined
    node = pod?.spec?.nodeName ?? node
    return pod
  }
  const state = (): PodState => {
    const pod = podOfJob()
    if (pod) return podState(pod, loadContainer)
    return seen
      ? { kind: 'lost', what: 'it is gone: its deadline passed, or another program removed it' }
      : { kind: 'starting', scheduled: false }
  }
  const ended = () => {
    const now = state()
    if (now.kind === 'ended') return now.code
    if (now.kind === 'broken' || now.kind === 'lost') throw notLoading(now)
    return undefined
  }
  try {
    await watch.events.begin()
    watch.trialsWaitingForLoad.add(trial)
    await api.request('POST', `/apis/batch/v1/namespaces/${api.namespace}/jobs`, { body, signal })
    const pod = await madeBy(options, name, podOfJob, signal)
    const template = (body.spec as { template: Json }).template
    await untilRunning({
      api,
      watch,
      name: pod.metadata!.name!,
      state: () => {
        const now = state()
        // It may have been quicker than the watch: what it printed is all there.
        return now.kind === 'ended' ? { kind: 'running', ip: '' } : now
      },
      endedAs: async () =>
        notLoading(
          withPullCause(
            state(),
            await watch.events.of(pod.metadata!.name!, signal).catch(() => []),
          ),
        ),
      requested: template,
      beside: () => placedPredictors(watch, trial),
      othersEnd: () => otherTrialsEndBeforeLoad(watch, trial),
      onWaiting,
      patience: { ...defaultStartPatience, ...options.patience },
      signal,
    })
    watch.trialsWaitingForLoad.delete(trial)
    const lines = lineReader(onLine, () => over.abort(new Error('all was said')))
    const reading = AbortSignal.any([signal, over.signal])
    const logged = followLog(
      api,
      pod.metadata!.name!,
      loadContainer,
      lines.write,
      () => state().kind !== 'running',
      reading,
    )
    const code = await watch.until(ended, reading).catch((error: unknown) => {
      if (signal.aborted || !over.signal.aborted) throw error
      return undefined
    })
    await logged
    lines.end()
    return code
  } catch (error) {
    // Its predictor ran, and is paid.
    if (error instanceof LaunchError && error.unplaced)
      throw new LaunchError(
        `the load generator's pod is ${error.message}`,
        error.hint,
        undefined,
        error.final,
      )
    const now = state()
    if (signal.aborted || now.kind !== 'lost') throw error
    const { what, hint, final } = await describeLoss(options.explainLoss, node, now.what)
    throw new LaunchError(`the load generator's pod: ${what}`, hint, undefined, final)
  } finally {
    watch.trialsWaitingForLoad.delete(trial)
    await remove(api, { kind: 'jobs', name })
    watch.events.forget(name)
  }
}

/**
 * How long a Job may go without a pod, ms: for no reason that the cluster names, and because others
 * hold what a quota allows.
 */
const [silentMs, busyMs] = [60_000, 10 * 60_000]

/**
 * The pod that the cluster makes for a Job.
 * @throws LaunchError in the cluster's words where it will make none, or made none in time
 */
async function madeBy(
  { watch, trial, patience, onWaiting }: LoadRunOptions,
  name: string,
  podOfJob: () => V1Pod | undefined,
  signal: AbortSignal,
) {
  const gaveUp = new AbortController()
  const startedMs = performance.now()
  let othersMs = startedMs
  let waitedFor: string | undefined
  const look = async () => {
    // Without leave to see events the clock is all there is.
    const warnings = warningsIn(await watch.events.of(name, signal).catch(() => []))
    const refusal = jobPodRefused(warnings, placedPredictors(watch, trial))
    if (refusal?.kind === 'final') return gaveUp.abort(refusal.error)
    const nowMs = performance.now()
    if (otherTrialsEndBeforeLoad(watch, trial)) othersMs = nowMs
    if (refusal !== undefined && waitedFor !== refusal.what) {
      waitedFor = refusal.what
      onWaiting?.(`quota for its load generator: ${refusal.what}`)
    }
    const overdue =
      refusal !== undefined &&
      nowMs - othersMs > { ...defaultStartPatience, ...patience }.unschedulableMs
    const maxMs = patience?.startMs ?? (refusal?.kind === 'busy' ? busyMs : silentMs)
    if (!overdue && nowMs - startedMs < maxMs) return
    const why = refusal?.what ?? 'run kubectl describe job to see why'
    const seconds = Math.round((nowMs - startedMs) / 1000)
    gaveUp.abort(new LaunchError(`the Job created no pod within ${seconds} s`, why))
  }
  const timer = setInterval(() => void look(), patience?.lookMs ?? defaultStartPatience.lookMs)
  try {
    return await watch.until(podOfJob, AbortSignal.any([signal, gaveUp.signal]))
  } finally {
    clearInterval(timer)
  }
}

const notLoading = (state: PodState): LaunchError =>
  new LaunchError(
    `the load generator's pod: ${describe(state)}`,
    'hint' in state ? state.hint : undefined,
    undefined,
    'final' in state && state.final ? 'experiment' : undefined,
  )

const describe = (state: PodState): string =>
  'what' in state ? state.what : 'why' in state ? state.why : state.kind

const lineReader = (onLine: (line: string) => boolean, onLast: () => void) => {
  const decoder = new StringDecoder('utf8')
  let rest = ''
  return {
    write: (chunk: Buffer) => {
      const lines = (rest + decoder.write(chunk)).split('\n')
      rest = lines.pop()!
      if (rest.length > maxAnswerBytes()) throw createAnswerTooLongError(maxAnswerBytes())
      for (const line of lines) if (onLine(line)) onLast()
    },
    end: () => {
      if (rest !== '') onLine(rest)
    },
  }
}
