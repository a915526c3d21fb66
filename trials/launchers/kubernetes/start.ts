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
 * `PlaceClock` is the clock of the unschedulable states, `watchTheClock` that of the start.
 */
import type { V1Pod } from '@kubernetes/client-node'
import { LaunchError, type OnWaiting } from '../../types.ts'
import { type Api, ApiError } from './api.ts'
import { listDevices, offersClaim } from './device-slices.ts'
import { type DeviceClaim, draVersionOf } from './dra.ts'
import { warningsIn } from './failures.ts'
import { findNode } from './fits-node.ts'
import type { Json } from './manifests.ts'
import type { PodState } from './pod-state.ts'
import type { PodWatch } from './pod-watch.ts'
import { mayAddNodes, scaleUpSaid } from './scale-up.ts'

/** Times in ms. */
export interface StartPatience {
  /**
   * For a pod that fits no node, where the end of another trial would not change that.
   */
  readonly unschedulableMs: number
  readonly scaleUpMs: number
  /** Wait `scaleUpMs` even without a sign of a new node: some autoscalers report nothing. */
  readonly waitsForScaleUp?: boolean
  /** From the choice of a node until the container runs: image pull, volumes. */
  readonly startMs: number
  /** Between two checks of the clock and of the cluster's warnings. */
  readonly lookMs: number
}

export const defaultStartPatience: StartPatience = {
  unschedulableMs: 20_000,
  scaleUpMs: 10 * 60_000,
  startMs: 10 * 60_000,
  lookMs: 1_000,
}

interface Start {
  readonly api: Api
  readonly watch: PodWatch
  readonly name: string
  readonly state: () => PodState
  /** The current state as an error of the trial. */
  readonly endedAs: () => Promise<Error>
  /** The pod as it was asked for. */
  readonly requested: Json
  /** The devices that it claims. */
  readonly claim?: DeviceClaim
  /** Pods of the same trial, which run as long as it does. */
  readonly beside?: () => readonly V1Pod[]
  /** Whether pods of other trials will end by themselves while this one waits. */
  readonly othersEnd: () => boolean
  readonly patience: StartPatience
  readonly signal: AbortSignal
  /** Called repeatedly while the cluster adds a node, and once for any other reason. */
  readonly onWaiting?: OnWaiting
}

interface Started {
  readonly ip: string
  /** Time without a node, ms; 0: the scheduler found one at once. */
  readonly unplacedMs: number
}

/** Resolves once the pod runs. @throws InfeasibleError, LaunchError, the signal's reason */
export async function untilRunning(start: Start): Promise<Started> {
  const { watch, state, signal } = start
  const gaveUp = new AbortController()
  const clock = watchTheClock(start, gaveUp)
  let unplacedMs = 0
  let unplacedSince: number | undefined
  try {
    const found = await watch.until(
      () => {
        const now = state()
        const placeless = now.kind === 'unschedulable'
        if (placeless) unplacedSince ??= performance.now()
        else if (unplacedSince !== undefined) unplacedMs += performance.now() - unplacedSince
        if (!placeless) unplacedSince = undefined
        if (now.kind === 'starting' || now.kind === 'unschedulable') return undefined
        return now
      },
      AbortSignal.any([signal, gaveUp.signal]),
    )
    if (found.kind === 'running') return { ip: found.ip, unplacedMs }
    throw await start.endedAs()
  } finally {
    clock.stop()
  }
}

function watchTheClock(start: Start, gaveUp: AbortController): { stop: () => void } {
  const { patience, state, signal } = start
  const place = new PlaceClock(start)
  let scheduledSince: number | undefined
  const startedMs = performance.now()
  let looking = false
  let looks = 0
  const look = async () => {
    const nowMs = performance.now()
    const now = state()
    if (now.kind === 'unschedulable') {
      const noPlace = await place.look(nowMs, now.why)
      if (noPlace) gaveUp.abort(noPlace)
      return
    }
    place.found()
    if (now.kind !== 'starting') return
    if (now.scheduled) scheduledSince ??= nowMs
    const waitedMs = nowMs - (scheduledSince ?? startedMs)
    const late = waitedMs > patience.startMs
    // Without leave to watch them a look at the events costs a request: now and then only.
    if (!late && ++looks % 10 !== 0) return
    const warnings = warningsIn(await start.watch.events.of(start.name, signal))
    const missing = warnings.find((warning) =>
      /^FailedMount.*(not found|references non-existent)/s.test(warning),
    )
    if (missing)
      gaveUp.abort(new LaunchError(missing, 'check that every volume that the pod names exists'))
    else if (late) {
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
    if (looking) return
    looking = true
    look()
      // The clock only adds to what is known: a look that fails is repeated.
      .catch(() => undefined)
      .finally(() => {
        looking = false
      })
  }, patience.lookMs)
  return { stop: () => clearInterval(timer) }
}

/** How long a pod has been without a node, and whether it is worth waiting longer. */
class PlaceClock {
  readonly #start: Start
  #since: number | undefined
  #firstMs: number | undefined
  #grows = false
  #askedMs = Number.NEGATIVE_INFINITY
  #waitedFor: string | undefined

  constructor(start: Start) {
    this.#start = start
  }

  found(): void {
    this.#since = undefined
  }

  /**
   * @param why the scheduler's words
   * @returns why there is no place for it, once that is certain or has lasted too long
   * @throws ApiError where events may not be seen
   */
  async look(nowMs: number, why: string): Promise<Error | undefined> {
    const { patience, onWaiting } = this.#start
    const alone = !this.#start.othersEnd()
    this.#firstMs ??= nowMs
    // Each look at nodes that are to come, and without leave to watch them at events, is a request.
    if (
      nowMs - this.#askedMs >=
      Math.min(patience.unschedulableMs, looksBetweenEvents * patience.lookMs)
    ) {
      this.#askedMs = nowMs
      const { grows, said } = await scaleUpOf(this.#start).catch(unseen)
      // Of an autoscaler that says nothing nobody knows whether a trial's end or a node comes
      // first.
      this.#grows = grows || (patience.waitsForScaleUp === true && (alone || this.#grows))
      if (this.#grows) onWaiting?.(`a node${said === undefined ? '' : ` (${said})`}`)
      else if (said === undefined) {
        // Of devices that it claims the scheduler alone tells.
        const fit = this.#start.claim === undefined ? await fitSeen(this.#start) : undefined
        if (fit?.kind === 'never' && !(await mayAddNodes(this.#start.api, this.#start.signal)))
          return noPlace(fit.what, why, fit.hint)
        this.#sayWaiting(nowMs, fit, why)
      }
    }
    if (alone || this.#grows) this.#since ??= nowMs
    else this.#since = undefined
    const waitedMs = nowMs - (this.#since ?? nowMs)
    return waitedMs > (this.#grows ? patience.scaleUpMs : patience.unschedulableMs)
      ? neverScheduled(this.#start, why)
      : undefined
  }

  #sayWaiting(nowMs: number, fit: Awaited<ReturnType<typeof fitSeen>>, why: string): void {
    const { onWaiting, patience } = this.#start
    const what =
      fit === undefined
        ? `a place: ${why}`
        : fit.kind === 'taken'
          ? `room on node ${fit.node}, which other pods use: ${why}`
          : fit.kind === 'closed'
            ? `a node that accepts pods: ${fit.what}`
            : `a node that an autoscaler may add: ${fit.what}`
    // A pod that ends lets go of its place a moment later.
    const passing = nowMs - this.#firstMs! < patience.lookMs && fit?.kind === 'taken'
    if (passing || what === this.#waitedFor) return
    this.#waitedFor = what
    onWaiting?.(what, 'room')
  }
}

const looksBetweenEvents = 5

/** Without leave to see events nobody says that a node is added. */
function unseen(error: unknown): { readonly grows: false; readonly said?: undefined } {
  if (error instanceof ApiError && error.status === 403) return { grows: false }
  throw error
}

/** Without leave to see nodes or devices the scheduler's word is all there is. */
const seen = <T>(looked: Promise<T>): Promise<T | undefined> =>
  looked.catch((error: unknown) => {
    if (error instanceof ApiError) return undefined
    throw error
  })

const fitSeen = ({ api, requested, beside, signal }: Start) =>
  seen(findNode(api, requested, beside?.() ?? [], signal))

async function neverScheduled(start: Start, why: string): Promise<Error> {
  const { api, claim, signal } = start
  const { said } = (await seen(scaleUpOf(start))) ?? {}
  const words = said === undefined ? why : `${why}; ${said}`
  if (claim !== undefined && claimUnmet.test(why)) {
    const offered = await seen(devicesOffer(api, claim, signal))
    const what = `${claim.count} x ${claim.products.join(' or ')}${claim.migProfile ? ` slice ${claim.migProfile}` : ''} of class ${claim.deviceClass}`
    if (offered)
      return placeTaken(words, `${what} would suffice, but other pods use it: free it, or wait`)
    return noPlace(offered === false ? `no node has ${what}` : undefined, words)
  }
  if (claim !== undefined && /resource ?claim|device class/i.test(why)) {
    return placeTaken(
      words,
      'choose one of the device classes that tune doctor --backend kubernetes lists, and set kubernetes.dra.deviceClass',
    )
  }
  const fit = await fitSeen(start)
  if (fit?.kind === 'taken')
    return placeTaken(
      words,
      `node ${fit.node} would have room, but other pods use it: free it, or wait`,
    )
  if (fit?.kind === 'closed') return placeTaken(`${fit.what}; ${words}`, 'tune tries it again')
  return noPlace(fit?.what, words, fit?.hint)
}

/** It may have a place another time. */
const placeTaken = (words: string, hint: string): LaunchError =>
  new LaunchError(`unschedulable: ${words}`, hint, undefined, undefined, true)

/**
 * No node has it now, which says nothing of the configuration: a node may be added, and a resumed
 * run tries it again.
 */
const noPlace = (
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

/**
 * The scheduler's words for devices that are not there or not free (its plugin DynamicResources).
 */
const claimUnmet = /cannot allocate all claims/

const scaleUpOf = async ({ api, watch, name, signal }: Start) =>
  scaleUpSaid(api, await watch.events.of(name, signal), signal)

async function devicesOffer(api: Api, claim: DeviceClaim, signal: AbortSignal): Promise<boolean> {
  const version = await draVersionOf(api)
  return version !== undefined && offersClaim(await listDevices(api, version, signal), claim)
}
