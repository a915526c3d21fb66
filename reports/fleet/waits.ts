/**
 * How long requests wait for models that take turns, in virtual time.
 *
 * On demand a slice has one model in memory. Requests are admitted in the order in which they come; one for another model waits until all before it are answered and until its model
 * is loaded, as a swapping proxy does it (llama-swap's groups). Of Poisson arrivals a request finds its model there with the probability that the one before it was for the same
 * (a cache of one item), but what follows a load waits too, and arrivals come in bursts, so that it is played.
 *
 * Where what models hold of the slice's memory is known, as many stay in it as fit, and whoever was asked for longest ago leaves first (a cache with least recently used; its misses
 * of Poisson arrivals are King's, 1971). Requests of different models are played one after the other also where both are in memory. A GPU that gives its time to both in slices
 * answers all of them no later than that, but one of them may take as many times as long as there are models: that much of the SLO is kept for it.
 */
import { seeded } from '../../profiler/seeded-random.ts'
import type { Demand } from '../plan/demand.ts'
import { stepSeconds } from './over-day.ts'

/** Requests of a model as they come. */
export interface Asked {
  readonly spans: Demand['spans']
  /** Second of the day at which these begin. */
  readonly beginsS: number
  /** What its replicas are to carry for them, requests per second, what is kept free counted in. */
  readonly carriedRps: number
}

/** What the requests of a model wait because it was not in memory. */
export interface Waits {
  /** Of its requests, 0-1. */
  readonly waiting: number
  /** Of its requests, those that miss the SLO for it, 0-1: two standard errors above what was played. */
  readonly late: number
  readonly longestS: number
  readonly loadsPerDay: number
  /** Played. */
  readonly requests: number
}

/** A model in turns, on the slice. */
export interface TakingTurns {
  readonly asked: Asked
  /** Of all its rates. */
  readonly factor: number
  readonly rateRps: number
  readonly loadS: number
  /** What it holds of the slice's memory; absent: nobody knows. */
  readonly memoryMiB?: number
  /** Until the last of its requests is answered once it was begun. */
  readonly answerS: number
  /** What a request may wait, for loads and for others before it, and still keep the SLO. */
  readonly slackS: number
  /** Of its requests, how many may miss the SLO for a load. */
  readonly mayBeLate: number
}

/** Of the requests that an SLO's percentile lets go, the part that loads may take: the others are let to what happens in memory. */
export const partForLoads = 0.5

const daySeconds = 86_400
/** Requests of one model that tell enough, days that are played at the least and at most, and all requests that are played at most. */
const [enoughRequests, fewestDays, mostDays, mostRequests] = [2000, 4, 60, 200_000]

/** How many of them may be in memory together, the smallest first: 1 where what one of them holds is not known. */
export function togetherIn(all: readonly TakingTurns[], roomMiB = 0): number {
  const sizes = all.map(({ memoryMiB = Number.POSITIVE_INFINITY }) => memoryMiB).sort((a, b) => a - b)
  if (sizes.at(-1) === Number.POSITIVE_INFINITY) return 1
  return Math.max(1, sizes.filter((_, i) => sumOf(sizes.slice(0, i + 1)) <= roomMiB).length)
}

/**
 * @param came whose requests were drawn already
 * @param roomMiB memory of the slice, as much of it as models may hold together; absent: one of them is in memory at a time
 * @returns undefined where one of them misses its SLO too often, or so many requests come that models are not put out of memory between them
 */
export function playTurns(all: readonly TakingTurns[], came = new DrawnRequests(), roomMiB?: number): Waits[] | undefined {
  const together = togetherIn(all, roomMiB)
  const slackS = all.map((one) => one.slackS - (together - 1) * one.answerS)
  if (together > 1 && slackS.some((left) => left < 0)) return undefined
  const period = Math.max(...all.map(({ asked }) => Math.ceil(lengthOf(asked) / daySeconds - 1e-9)))
  const perDay = all.map(({ factor, asked }) => (factor * requestsOf(asked) * daySeconds) / lengthOf(asked))
  const wanted = Math.min(mostDays, Math.max(fewestDays, ...perDay.map((count) => Math.ceil(enoughRequests / count))))
  const days = period * Math.ceil(wanted / period)
  if (days * perDay.reduce((sum, count) => sum + count, 0) > mostRequests) return undefined
  const slice = new Slice(all, together > 1 ? roomMiB : undefined)
  const seen = all.map(() => new Seen(days))
  for (let day = 0; day < days; day++) {
    for (const { atS, model } of inOrder(all.map((one) => came.on(day, one)))) {
      const { waitS, forLoadsS, loaded } = slice.admit(model, atS)
      seen[model]!.count(day, forLoadsS, forLoadsS > 1e-9 && waitS > slackS[model]! + 1e-9, loaded)
    }
    // Where too many are late by far the rest is spared.
    if (day === period - 1 && all.some(({ mayBeLate }, i) => seen[i]!.late > 4 * mayBeLate)) return undefined
  }
  const waits = seen.map((one) => one.told())
  return waits.every(({ late, requests }, i) => requests > 0 && late <= all[i]!.mayBeLate) ? waits : undefined
}

/** Requests of models, day by day: drawn once for all sets that they are played in. */
export class DrawnRequests {
  readonly #days = new Map<Asked, { readonly seed: number; readonly days: (readonly number[])[] }>()

  /** Seconds from the first day on, ascending. */
  on(day: number, { asked, factor }: TakingTurns): readonly number[] {
    const known = this.#days.get(asked) ?? { seed: 1000 * (this.#days.size + 1), days: [] }
    this.#days.set(asked, known)
    known.days[day] ??= arrivalsOn(day, asked, factor, seeded(known.seed + day))
    return known.days[day]
  }
}

/** Poisson, at the rates of its spans. */
function arrivalsOn(day: number, asked: Asked, factor: number, draw: () => number): number[] {
  const [beginS, endS, length] = [day * daySeconds, (day + 1) * daySeconds, lengthOf(asked)]
  const times: number[] = []
  for (let fromS = asked.beginsS + Math.floor((beginS - asked.beginsS) / length) * length; fromS < endS; )
    for (const { rps, seconds } of asked.spans) {
      const untilS = Math.min(endS, fromS + seconds)
      for (let atS = Math.max(beginS, fromS); atS < untilS; ) {
        atS -= Math.log(1 - draw()) / (rps * factor)
        if (atS < untilS) times.push(atS)
      }
      fromS += seconds
    }
  return times
}

/** Those of all models, each with whose it is. */
function* inOrder(times: readonly (readonly number[])[]): Generator<{ readonly atS: number; readonly model: number }> {
  const next = times.map(() => 0)
  for (;;) {
    let model = -1
    for (const [i, own] of times.entries())
      if (next[i]! < own.length && (model < 0 || own[next[i]!]! < times[model]![next[model]!]!)) model = i
    if (model < 0) return
    yield { atS: times[model]![next[model]!++]!, model }
  }
}

const lengthOf = ({ spans }: Asked): number => spans.reduce((sum, { seconds }) => sum + seconds, 0)
const requestsOf = ({ spans }: Asked): number => spans.reduce((sum, { rps, seconds }) => sum + rps * seconds, 0)

/** A slice, and who is in its memory. */
class Slice {
  /** Those in memory, the one that was asked for last at the end. */
  #there: readonly number[] = []
  /** When all that was admitted is answered, and when the next may begin. */
  #answeredS = 0
  #nextS = 0
  /** When the next may begin of a model that never left. */
  readonly #aloneS: number[]

  /** @param roomMiB absent: one of them is in memory at a time */
  constructor(
    readonly all: readonly TakingTurns[],
    readonly roomMiB?: number,
  ) {
    this.#aloneS = all.map(() => 0)
  }

  /** What it waits until it is begun, and of that what it would not if its model had a slice of its own. Requests are begun no faster than a replica carries them. */
  admit(model: number, atS: number): { readonly waitS: number; readonly forLoadsS: number; readonly loaded: boolean } {
    const { rateRps, loadS, answerS } = this.all[model]!
    const loaded = !this.#there.includes(model)
    if (this.#there.at(-1) !== model) {
      this.#nextS = Math.max(atS, this.#answeredS) + (loaded ? loadS : 0)
      this.#there = [...this.#staying(model, loaded), model]
    }
    const beginS = Math.max(atS, this.#nextS)
    this.#nextS = beginS + 1 / rateRps
    this.#answeredS = Math.max(this.#answeredS, beginS + answerS)
    const alone = Math.max(atS, this.#aloneS[model]!)
    this.#aloneS[model] = alone + 1 / rateRps
    return { waitS: beginS - atS, forLoadsS: beginS - alone, loaded }
  }

  /** Who stays in memory beside that one. */
  #staying(model: number, loaded: boolean): readonly number[] {
    const others = this.#there.filter((one) => one !== model)
    if (!loaded) return others
    if (this.roomMiB === undefined) return []
    const holds = (models: readonly number[]) => sumOf(models.map((one) => this.all[one]!.memoryMiB!))
    const first = others.findIndex((_, i) => holds([...others.slice(i), model]) <= this.roomMiB!)
    return first < 0 ? [] : others.slice(first)
  }
}

class Seen {
  readonly #came: number[]
  readonly #late: number[]
  #waiting = 0
  #longestS = 0
  #loads = 0

  constructor(days: number) {
    this.#came = new Array<number>(days).fill(0)
    this.#late = new Array<number>(days).fill(0)
  }

  count(day: number, waitS: number, late: boolean, loaded: boolean): void {
    this.#came[day]!++
    if (late) this.#late[day]!++
    if (waitS > 1e-9) this.#waiting++
    if (loaded) this.#loads++
    this.#longestS = Math.max(this.#longestS, waitS)
  }

  /** Of those that came so far. */
  get late(): number {
    return sumOf(this.#late) / Math.max(1, sumOf(this.#came))
  }

  told(): Waits {
    const requests = sumOf(this.#came)
    // A ratio, its error by the spread of the days.
    const error = Math.sqrt(sumOf(this.#came.map((count, day) => (this.#late[day]! - this.late * count) ** 2))) / requests
    return {
      waiting: this.#waiting / requests,
      // Of none that were seen up to three may be, with 95 %.
      late: this.late === 0 ? 3 / requests : this.late + 2 * error,
      longestS: this.#longestS,
      loadsPerDay: this.#loads / this.#came.length,
      requests,
    }
  }
}

const sumOf = (counts: readonly number[]): number => counts.reduce((sum, count) => sum + count, 0)

/** Of a day that is reckoned. */
const tickS = 5

/**
 * What waits where replicas begin to load only when they are asked for: what comes meanwhile queues, and is served in its order at what those that are there carry.
 * @param rates requests per second in each step of the day @param carries what replicas that are in memory in a step carry, those that load counted
 * @param slackS what a request may wait and still keep the SLO
 */
export function waitsAtRises(rates: readonly number[], carries: readonly number[], loadS: number, slackS: number): Omit<Waits, 'requests'> {
  const ticks = (rates.length * stepSeconds) / tickS
  const at = <T>(of: readonly T[], tick: number): T => of[Math.floor(((((tick % ticks) + ticks) % ticks) * tickS) / stepSeconds)]!
  const loading = Math.ceil(loadS / tickS)
  // Three days: the first leaves what the second begins with, the third answers what that leaves.
  const [came, served] = [[0], [0]]
  for (let tick = 0; tick < 3 * ticks; tick++) {
    let ready = Number.POSITIVE_INFINITY
    for (let before = tick - loading; before <= tick; before += stepSeconds / tickS) ready = Math.min(ready, at(carries, before))
    ready = Math.min(ready, at(carries, tick))
    came.push(came[tick]! + at(rates, tick) * tickS)
    served.push(Math.min(came[tick + 1]!, served[tick]! + ready * tickS))
  }
  let [waiting, late, longest, answered] = [0, 0, 0, 0]
  for (let tick = ticks; tick < 2 * ticks; tick++) {
    answered = Math.max(answered, tick)
    while (answered < 3 * ticks && served[answered + 1]! < came[tick + 1]! - 1e-6) answered++
    const waitS = answered === 3 * ticks ? Number.POSITIVE_INFINITY : (answered - tick) * tickS
    const requests = at(rates, tick) * tickS
    if (waitS > 0) waiting += requests
    if (waitS > slackS) late += requests
    if (requests > 0) longest = Math.max(longest, waitS)
  }
  const all = came[2 * ticks]! - came[ticks]!
  const rises = carries.filter((rps, step) => rps > carries.at(step - 1)!).length
  return { waiting: waiting / all, late: late / all, longestS: longest, loadsPerDay: rises }
}
