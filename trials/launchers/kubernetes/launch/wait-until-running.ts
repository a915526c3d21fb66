/**
 * Waits from the creation of a pod until its container runs. Two clocks limit the wait:
 *
 *     state of the pod                                    gives up after
 *     unschedulable, other trials will free room          never: their end is waited for
 *     unschedulable, the cluster adds a node              `scaleUpMs`
 *     unschedulable, no node could ever hold it           at once
 *     unschedulable, otherwise                            `unschedulableMs`
 *     starting: image pull, volumes                       `startMs`; at once for a missing volume
 *
 * `UnschedulableClock` limits the unschedulable states, `watchStart` the start.
 */
import type { V1Pod } from '@kubernetes/client-node'
import { LaunchError, type OnWaiting } from '../../../types.ts'
import { type Api, ApiError } from '../api/api.ts'
import { canSatisfyClaim, listDevices } from '../gpus/device-slices.ts'
import { type DeviceClaim, findDraVersion } from '../gpus/dra.ts'
import type { Json } from '../manifests/manifests.ts'
import { findNode } from '../scheduling/node-fit.ts'
import { canAddNodes, findScaleUp } from '../scheduling/scale-up.ts'
import type { PodState } from '../watch/pod-state.ts'
import type { PodWatch } from '../watch/pod-watch.ts'
import { listWarnings } from './failures.ts'

/** Times in ms. */
export interface StartTimeouts {
  /**
   * For a pod that fits no node, where the end of another trial would not change that.
   */
  readonly unschedulableMs: number
  readonly scaleUpMs: number
  /** Wait `scaleUpMs` even without a sign of a new node: some autoscalers report nothing. */
  readonly waitsForScaleUp?: boolean
  /** From the choice of a node until the container runs: image pull, volumes. */
  readonly startMs: number
  /** Between two checks of the limits and of the cluster's warnings. */
  readonly checkIntervalMs: number
}

export const defaultStartTimeouts: StartTimeouts = {
  unschedulableMs: 20_000,
  scaleUpMs: 10 * 60_000,
  startMs: 10 * 60_000,
  checkIntervalMs: 1_000,
}

interface StartWait {
  readonly api: Api
  readonly watch: PodWatch
  readonly name: string
  readonly state: () => PodState
  /** The current state, as an error of the trial. */
  readonly explainEnd: () => Promise<Error>
  /** The pod's manifest. */
  readonly requested: Json
  /** The devices that it claims. */
  readonly claim?: DeviceClaim
  /** Pods of the same trial that run as long as this one. */
  readonly concurrentPods?: () => readonly V1Pod[]
  /** Whether pods of other trials will end by themselves while this one waits. */
  readonly willOthersEnd: () => boolean
  readonly timeouts: StartTimeouts
  readonly signal: AbortSignal
  /** Called repeatedly while the cluster adds a node, and once for any other reason. */
  readonly onWaiting?: OnWaiting
}

interface StartedPod {
  readonly ip: string
  /** Time without a node, ms; 0: the scheduler found one at once. */
  readonly unscheduledMs: number
}

/**
 * Resolves once the pod runs.
 * @throws InfeasibleError, LaunchError, the signal's reason
 */
export async function waitUntilRunning(start: StartWait): Promise<StartedPod> {
  const { watch, state, signal } = start
  const gaveUp = new AbortController()
  const clock = watchStart(start, gaveUp)
  let unscheduledMs = 0
  let unscheduledSinceMs: number | undefined
  try {
    const found = await watch.until(
      () => {
        const now = state()
        const isUnschedulable = now.kind === 'unschedulable'
        if (isUnschedulable) unscheduledSinceMs ??= performance.now()
        else if (unscheduledSinceMs !== undefined)
          unscheduledMs += performance.now() - unscheduledSinceMs
        if (!isUnschedulable) unscheduledSinceMs = undefined
        if (now.kind === 'starting' || now.kind === 'unschedulable') return undefined
        return now
      },
      AbortSignal.any([signal, gaveUp.signal]),
    )
    if (found.kind === 'running') return { ip: found.ip, unscheduledMs }
    throw await start.explainEnd()
  } finally {
    clock.stop()
  }
}

function watchStart(start: StartWait, gaveUp: AbortController): { stop: () => void } {
  const { timeouts, state, signal } = start
  const place = new UnschedulableClock(start)
  let scheduledSince: number | undefined
  const startedMs = performance.now()
  let isChecking = false
  let checks = 0
  const check = async () => {
    const nowMs = performance.now()
    const now = state()
    if (now.kind === 'unschedulable') {
      const noNode = await place.check(nowMs, now.why)
      if (noNode) gaveUp.abort(noNode)
      return
    }
    place.found()
    if (now.kind !== 'starting') return
    if (now.scheduled) scheduledSince ??= nowMs
    const waitedMs = nowMs - (scheduledSince ?? startedMs)
    const isLate = waitedMs > timeouts.startMs
    // Where events may not be watched, each check is a request: check every tenth time only.
    if (!isLate && ++checks % 10 !== 0) return
    const warnings = listWarnings(await start.watch.events.listEvents(start.name, signal))
    const missing = warnings.find((warning) =>
      /^FailedMount.*(not found|references non-existent)/s.test(warning),
    )
    if (missing)
      gaveUp.abort(new LaunchError(missing, 'check that every volume that the pod names exists'))
    else if (isLate) {
      const said =
        warnings.length > 0 ? `: ${warnings.join(' | ')}` : ', and the cluster reports no reason'
      gaveUp.abort(
        new LaunchError(
          `the pod did not start within ${Math.round(waitedMs / 1000)} s${said}`,
          'the image may be large or the registry slow',
        ),
      )
    }
  }
  const timer = setInterval(() => {
    if (isChecking) return
    isChecking = true
    check()
      // A check that fails is repeated at the next interval.
      .catch(() => undefined)
      .finally(() => {
        isChecking = false
      })
  }, timeouts.checkIntervalMs)
  return { stop: () => clearInterval(timer) }
}

/** Measures how long a pod has been unschedulable, and decides whether to wait longer. */
class UnschedulableClock {
  readonly #start: StartWait
  #sinceMs: number | undefined
  #firstMs: number | undefined
  #isScalingUp = false
  #checkedMs = Number.NEGATIVE_INFINITY
  #reportedReason: string | undefined

  constructor(start: StartWait) {
    this.#start = start
  }

  found(): void {
    this.#sinceMs = undefined
  }

  /**
   * @param why the scheduler's message
   * @returns the error once no node can ever hold the pod, or the wait has exceeded its limit
   * @throws ApiError if events may not be read
   */
  async check(nowMs: number, why: string): Promise<Error | undefined> {
    const { timeouts, onWaiting } = this.#start
    const alone = !this.#start.willOthersEnd()
    this.#firstMs ??= nowMs
    // Each check of new nodes is a request; so is one of events where they may not be watched.
    if (
      nowMs - this.#checkedMs >=
      Math.min(timeouts.unschedulableMs, checksBetweenEvents * timeouts.checkIntervalMs)
    ) {
      this.#checkedMs = nowMs
      const { isScalingUp, message } = await checkScaleUp(this.#start).catch(ignoreForbidden)
      // If the autoscaler reports nothing, a trial may end before a node is added.
      this.#isScalingUp =
        isScalingUp || (timeouts.waitsForScaleUp === true && (alone || this.#isScalingUp))
      if (this.#isScalingUp) onWaiting?.(`a node${message === undefined ? '' : ` (${message})`}`)
      else if (message === undefined) {
        // Whether claimed devices fit is known to the scheduler alone.
        const fit = this.#start.claim === undefined ? await findVisibleNode(this.#start) : undefined
        if (fit?.kind === 'never' && !(await canAddNodes(this.#start.api, this.#start.signal)))
          return createNoNodeError(fit.what, why, fit.hint)
        this.#reportWaiting(nowMs, fit, why)
      }
    }
    if (alone || this.#isScalingUp) this.#sinceMs ??= nowMs
    else this.#sinceMs = undefined
    const waitedMs = nowMs - (this.#sinceMs ?? nowMs)
    return waitedMs > (this.#isScalingUp ? timeouts.scaleUpMs : timeouts.unschedulableMs)
      ? explainUnscheduled(this.#start, why)
      : undefined
  }

  #reportWaiting(
    nowMs: number,
    fit: Awaited<ReturnType<typeof findVisibleNode>>,
    why: string,
  ): void {
    const { onWaiting, timeouts } = this.#start
    const what =
      fit === undefined
        ? `a place: ${why}`
        : fit.kind === 'taken'
          ? `room on node ${fit.node}, which other pods use: ${why}`
          : fit.kind === 'closed'
            ? `a node that accepts pods: ${fit.what}`
            : `a node that an autoscaler may add: ${fit.what}`
    // A pod that ends frees its room a moment later: do not report that.
    const isPassing = nowMs - this.#firstMs! < timeouts.checkIntervalMs && fit?.kind === 'taken'
    if (isPassing || what === this.#reportedReason) return
    this.#reportedReason = what
    onWaiting?.(what, 'room')
  }
}

/** Check intervals between two requests for new nodes and scale-ups. */
const checksBetweenEvents = 5

/** Where events may not be read, scale-ups are unknown. */
function ignoreForbidden(error: unknown): {
  readonly isScalingUp: false
  readonly message?: undefined
} {
  if (error instanceof ApiError && error.status === 403) return { isScalingUp: false }
  throw error
}

/** Undefined if nodes or devices may not be read: then only the scheduler's message is known. */
const ignoreApiError = <T>(looked: Promise<T>): Promise<T | undefined> =>
  looked.catch((error: unknown) => {
    if (error instanceof ApiError) return undefined
    throw error
  })

const findVisibleNode = ({ api, requested, concurrentPods, signal }: StartWait) =>
  ignoreApiError(findNode(api, requested, concurrentPods?.() ?? [], signal))

async function explainUnscheduled(start: StartWait, why: string): Promise<Error> {
  const { api, claim, signal } = start
  const { message } = (await ignoreApiError(checkScaleUp(start))) ?? {}
  const words = message === undefined ? why : `${why}; ${message}`
  if (claim !== undefined && unmetClaimPattern.test(why)) {
    const offered = await ignoreApiError(canDevicesSatisfy(api, claim, signal))
    const what = `${claim.count} x ${claim.products.join(' or ')}${claim.migProfile ? ` slice ${claim.migProfile}` : ''} of class ${claim.deviceClass}`
    if (offered)
      return createRetryableError(
        words,
        `${what} would suffice, but other pods use it: free it, or wait`,
      )
    return createNoNodeError(offered === false ? `no node has ${what}` : undefined, words)
  }
  if (claim !== undefined && /resource ?claim|device class/i.test(why)) {
    return createRetryableError(
      words,
      'choose one of the device classes that tune doctor --backend kubernetes lists, and set kubernetes.dra.deviceClass',
    )
  }
  const fit = await findVisibleNode(start)
  if (fit?.kind === 'taken')
    return createRetryableError(
      words,
      `node ${fit.node} would have room, but other pods use it: free it, or wait`,
    )
  if (fit?.kind === 'closed')
    return createRetryableError(`${fit.what}; ${words}`, 'tune tries it again')
  return createNoNodeError(fit?.what, words, fit?.hint)
}

/** The pod would fit if other pods freed their room, so that a retry may succeed. */
const createRetryableError = (words: string, hint: string): LaunchError =>
  new LaunchError(`unschedulable: ${words}`, hint, undefined, undefined, true)

/**
 * No node can hold the pod now. That is no result about the configuration: a node may be added, and
 * a resumed run tries again.
 */
const createNoNodeError = (
  what: string | undefined,
  words: string,
  hint = 'run tune resume once there is a node, or set kubernetes.scaleUpTimeout to wait for one',
): LaunchError =>
  new LaunchError(
    `unschedulable: ${what === undefined ? '' : `${what}; `}${words}`,
    hint,
    undefined,
    'run',
    true,
  )

/** The scheduler's message for missing or allocated devices (its DynamicResources plugin). */
const unmetClaimPattern = /cannot allocate all claims/

const checkScaleUp = async ({ api, watch, name, signal }: StartWait) =>
  findScaleUp(api, await watch.events.listEvents(name, signal), signal)

async function canDevicesSatisfy(
  api: Api,
  claim: DeviceClaim,
  signal: AbortSignal,
): Promise<boolean> {
  const version = await findDraVersion(api)
  return version !== undefined && canSatisfyClaim(await listDevices(api, version, signal), claim)
}
