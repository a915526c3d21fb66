/**
 * How long requests wait for models that take turns, in virtual time.
 *
 * It is played as llama-swap's scheduler does it (internal/router/scheduler/fifo.go), which is what
 * a fleet is handed over to: a request whose model is in memory begins at once; any other waits
 * until nobody asks those who leave for it, and until its model is loaded, and what comes for that
 * model meanwhile joins it. So requests of a model that is in memory overtake those that wait for
 * another. Of Poisson arrivals far apart a request finds its model there with the probability that
 * the one before it was for the same (a cache of one item).
 *
 * Where what models hold of the slice's memory is known, those stay in it that fit, by llama-swap's
 * matrix (internal/matrix): of all sets that fit and have the model that is asked for, the one for
 * which the least worth leaves. Whose SLO leaves most time to wait is worth least. Each of them is
 * taken to get its part of the GPU's time alone, as if all others were always busy: so much slower,
 * and so much longer until the next may begin.
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
  /**
   * Of its requests, those that miss the SLO for it, 0-1: two standard errors above what was
   * played.
   */
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

/**
 * Of the requests that an SLO's percentile lets go, the part that loads may take: the others are
 * let to what happens in memory.
 */
export const partForLoads = 0.5

const daySeconds = 86_400
/**
 * Requests of one model that tell enough, days that are played at the least and at most, and all
 * requests that are played at most.
 */
const [enoughRequests, fewestDays, mostDays, mostRequests] = [2000, 4, 60, 200_000]

/** Who may be in memory with whom, as places in the set that is played. */
interface Keeping {
  /**
   * Models that fit together, none of these sets a part of another; each alone where what one of
   * them holds is not known.
   */
  readonly sets: readonly (readonly number[])[]
  /** All of them, whoever is worth least in memory first. */
  readonly leaving: readonly number[]
}

/** @param roomMiB memory of the slice, as much of it as models may hold together; absent: one of them is in memory at a time */
export function keepingOf(all: readonly TakingTurns[], roomMiB?: number): Keeping {
  const places = [...all.keys()]
  const known = roomMiB !== undefined && all.every(({ memoryMiB }) => memoryMiB !== undefined)
  const parts = Array.from({ length: 2 ** all.length }, (_, bits) =>
    places.filter((i) => (bits >> i) % 2 === 1),
  )
  const fitting = parts.filter(
    (set) => set.length === 1 || (known && sumOf(set.map((i) => all[i]!.memoryMiB!)) <= roomMiB),
  )
  const sets = fitting.filter(
    (set) =>
      !fitting.some((other) => other.length > set.length && set.every((i) => other.includes(i))),
  )
  const rps = all.map(({ factor, asked }) => (factor * requestsOf(asked)) / lengthOf(asked))
  const spare = all.map(({ slackS, loadS }) => slackS - loadS)
  return {
    sets,
    leaving: places.sort((a, b) => spare[b]! - spare[a]! || rps[a]! - rps[b]! || b - a),
  }
}

export const mostTogether = ({ sets }: Pick<Keeping, 'sets'>): number =>
  Math.max(...sets.map((set) => set.length))

/**
 * @param came whose requests were drawn already
 * @param roomMiB memory of the slice, as much of it as models may hold together; absent: one of
 * them is in memory at a time
 * @returns undefined where one of them misses its SLO too often, or so many requests come that
 * models are not put out of memory between them
 */
export function playTurns(
  all: readonly TakingTurns[],
  came = new DrawnRequests(),
  roomMiB?: number,
): Waits[] | undefined {
  const keeping = keepingOf(all, roomMiB)
  const together = mostTogether(keeping)
  const slackS = all.map((one) => one.slackS - (together - 1) * one.answerS)
  if (together > 1 && slackS.some((left) => left < 0)) return undefined
  const period = Math.max(...all.map(({ asked }) => Math.ceil(lengthOf(asked) / daySeconds - 1e-9)))
  const perDay = all.map(
    ({ factor, asked }) => (factor * requestsOf(asked) * daySeconds) / lengthOf(asked),
  )
  const wanted = Math.min(
    mostDays,
    Math.max(fewestDays, ...perDay.map((count) => Math.ceil(enoughRequests / count))),
  )
  const days = period * Math.ceil(wanted / period)
  if (days * perDay.reduce((sum, count) => sum + count, 0) > mostRequests) return undefined
  const slice = new Slice(all, keeping)
  const seen = all.map(() => new Seen(days))
  const see = ({ model, atS, waitS, forLoadsS, loaded }: Begun) => {
    const late = forLoadsS > 1e-9 && waitS > slackS[model]! + 1e-9
    seen[model]!.count(Math.floor(atS / daySeconds), forLoadsS, late, loaded)
  }
  for (let day = 0; day < days; day++) {
    for (const request of inOrder(all.map((one) => came.on(day, one))))
      slice.admit(request).forEach(see)
    // Where too many are late by far the rest is spared.
    if (day === period - 1 && all.some(({ mayBeLate }, i) => seen[i]!.late > 4 * mayBeLate))
      return undefined
  }
  slice.swapped(Number.POSITIVE_INFINITY).forEach(see)
  const waits = seen.map((one) => one.told())
  return waits.every(({ late, requests }, i) => requests > 0 && late <= all[i]!.mayBeLate)
    ? waits
    : undefined
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
  for (
    let fromS = asked.beginsS + Math.floor((beginS - asked.beginsS) / length) * length;
    fromS < endS;
  )
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
function* inOrder(times: readonly (readonly number[])[]): Generator<Request> {
  const next = times.map(() => 0)
  for (;;) {
    let model = -1
    for (const [i, own] of times.entries())
      if (next[i]! < own.length && (model < 0 || own[next[i]!]! < times[model]![next[model]!]!))
        model = i
    if (model < 0) return
    yield { atS: times[model]![next[model]!++]!, model }
  }
}

const lengthOf = ({ spans }: Asked): number => spans.reduce((sum, { seconds }) => sum + seconds, 0)
const requestsOf = ({ spans }: Asked): number =>
  spans.reduce((sum, { rps, seconds }) => sum + rps * seconds, 0)

interface Request {
  readonly model: number
  readonly atS: number
}

/** A request that found its model, or whose model was loaded for it. */
interface Begun extends Request {
  readonly waitS: number
  /** Of that, what it would not wait if its model had a slice of its own. */
  readonly forLoadsS: number
  readonly loaded: boolean
}

/**
 * A slice, who is in its memory, and whose requests wait for that. Models are loaded one after the
 * other.
 */
class Slice {
  readonly #there: Set<number>
  readonly #waiting = new Map<number, Request[]>()
  /** Until the last load ends. */
  #loadedS = 0
  /**
   * Of each model: since when it is there, when the next of its requests may begin, and when all
   * that began are answered.
   */
  readonly #readyS: number[]
  readonly #nextS: number[]
  readonly #answeredS: number[]
  /** When the next may begin of a model that never left. */
  readonly #aloneS: number[]
  readonly #together: number
  /** Binary, so that one is worth more than all who leave before it. */
  readonly #worth: number[]

  constructor(
    readonly all: readonly TakingTurns[],
    readonly keeping: Keeping,
  ) {
    const [none, only] = [() => all.map(() => 0), keeping.sets.length === 1 ? keeping.sets[0]! : []]
    this.#there = new Set(only)
    ;[this.#readyS, this.#nextS, this.#answeredS, this.#aloneS] = [none(), none(), none(), none()]
    this.#together = mostTogether(keeping)
    this.#worth = [...all.keys()].map((model) => 2 ** keeping.leaving.indexOf(model))
  }

  /**
   * What begins by then: loads that nothing hinders any more, and the request itself where its
   * model is there.
   */
  admit(request: Request): Begun[] {
    const begun = this.swapped(request.atS)
    if (this.#there.has(request.model)) return [...begun, this.#begin(request)]
    const before = this.#waiting.get(request.model)
    if (before) before.push(request)
    else this.#waiting.set(request.model, [request])
    return [...begun, ...this.swapped(request.atS)]
  }

  /** Loads that begin by then, each with the requests that wait for it. */
  swapped(untilS: number): Begun[] {
    const begun: Begun[] = []
    for (;;) {
      const [next] = [...this.#waiting]
        .map(([model, [first]]) => {
          const leave = this.#leavingFor(model)
          return {
            model,
            leave,
            fromS: Math.max(
              first!.atS,
              this.#loadedS,
              ...leave.map((one) => this.#answeredS[one]!),
            ),
          }
        })
        .sort((a, b) => a.fromS - b.fromS)
      if (next === undefined || next.fromS > untilS) return begun
      for (const one of next.leave) this.#there.delete(one)
      this.#there.add(next.model)
      this.#loadedS = this.#readyS[next.model] = next.fromS + this.all[next.model]!.loadS
      const joined = this.#waiting.get(next.model)!
      this.#waiting.delete(next.model)
      begun.push(...joined.map((request, i) => this.#begin(request, i === 0)))
    }
  }

  #leavingFor(model: number): number[] {
    const leave = this.keeping.sets
      .filter((set) => set.includes(model))
      .map((set) => [...this.#there].filter((one) => !set.includes(one)))
    const worth = (of: readonly number[]) => sumOf(of.map((one) => this.#worth[one]!))
    return leave.reduce((least, of) => (worth(of) < worth(least) ? of : least))
  }

  /** Requests are begun no faster than a replica carries them. */
  #begin(request: Request, loaded = false): Begun {
    const { model, atS } = request
    const { rateRps, answerS } = this.all[model]!
    const beginS = Math.max(atS, this.#readyS[model]!, this.#nextS[model]!)
    this.#nextS[model] = beginS + this.#together / rateRps
    this.#answeredS[model] = Math.max(this.#answeredS[model]!, beginS + this.#together * answerS)
    const alone = Math.max(atS, this.#aloneS[model]!)
    this.#aloneS[model] = alone + 1 / rateRps
    return { ...request, waitS: beginS - atS, forLoadsS: beginS - alone, loaded }
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
    const error =
      Math.sqrt(
        sumOf(this.#came.map((count, day) => (this.#late[day]! - this.late * count) ** 2)),
      ) / requests
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
 * What waits where replicas begin to load only when they are asked for: what comes meanwhile
 * queues, and is served in its order at what those that are there carry.
 * @param rates requests per second in each step of the day @param carries what replicas that are in
 * memory in a step carry, those that load counted
 * @param slackS what a request may wait and still keep the SLO
 */
export function waitsAtRises(
  rates: readonly number[],
  carries: readonly number[],
  loadS: number,
  slackS: number,
): Omit<Waits, 'requests'> {
  const ticks = (rates.length * stepSeconds) / tickS
  const at = <T>(of: readonly T[], tick: number): T =>
    of[Math.floor(((((tick % ticks) + ticks) % ticks) * tickS) / stepSeconds)]!
  const loading = Math.ceil(loadS / tickS)
  // Three days: the first leaves what the second begins with, the third answers what that leaves.
  const [came, served] = [[0], [0]]
  for (let tick = 0; tick < 3 * ticks; tick++) {
    let ready = Number.POSITIVE_INFINITY
    for (let before = tick - loading; before <= tick; before += stepSeconds / tickS)
      ready = Math.min(ready, at(carries, before))
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
