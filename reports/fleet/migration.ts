/**
 * In which order a fleet is reached from what runs today: bring up, shift, drain, so that what
 * stands carries the demand after every step on no more GPUs than there are.
 *
 * GPUs that are cut today as the plan has them stay cut, and change slice by slice. Others are
 * drained whole and cut anew; first those that the demand can spare, then, where there are more
 * GPUs to be had, with one more of them, which also takes over from a GPU that could not change
 * slice by slice without a gap. Only then is a step taken that leaves too little, the one that does
 * so in the fewest hours. It is an order, not the shortest one.
 *
 * A slice on which models take turns is brought up with all of them: from then on each carries its
 * own hours, and what runs today is drained where that is enough.
 */
import { grouped } from '../../trials/grouped.ts'
import {
  alignedTo,
  type Block,
  isUsed,
  type Place,
  rateOf,
  ratesOf,
  saidOn,
  sameReplica,
} from './migration-places.ts'

export interface MigrationStep {
  readonly action: 'bring up' | 'drain'
  readonly kind: string
  readonly gpus: number
  /**
   * Where replicas are brought up: a GPU of today that was emptied, one more, or free slices of one
   * that stays cut.
   */
  readonly on?: 'emptied' | 'one more' | 'as it is cut'
  /** Of what is cut anew, all its slices. */
  readonly cut?: readonly string[]
  /** Emptied GPUs that nobody needs any more. */
  readonly givenBack?: number
  readonly replicas: ReturnType<typeof saidOn>
  /** After the step, of each kind. */
  readonly gpusInUse: Readonly<Record<string, number>>
  /** Hours of the day in which what stands after the step carries the demand of every model. */
  readonly hours: readonly number[]
  /** Models that some rate of the day would find short after the step, at the worst of them. */
  readonly short: readonly {
    readonly model: string
    readonly carriesRps: number
    readonly demandRps: number
  }[]
}

export interface Migration {
  readonly steps: readonly MigrationStep[]
  /** Replicas of today that stay as they are. */
  readonly staying: number
  /** The most GPUs in use at once, of each kind. */
  readonly mostGpus: Readonly<Record<string, number>>
}

interface Changing {
  readonly kind: string
  readonly gpus: number
  places: readonly Place[]
  /** What it is to be, place by place; absent: it goes. */
  readonly goal?: readonly Place[]
}

/**
 * @param limitOf GPUs of a kind that may be in use at once; what runs today may be more
 * @param askedRps of each model, what is asked in each hour of the day, or in each of its steps
 * where some take turns
 */
export function planMigration(
  today: readonly Block[],
  plan: readonly Block[],
  limitOf: (kind: string) => number,
  askedRps: ReadonlyMap<string, readonly number[]>,
): Migration {
  const move = new Move(today, plan, limitOf, askedRps)
  while (move.next()) {
    // Each step empties or fills a place for good, so it ends.
  }
  const replicas = (places: readonly Place[]) =>
    places.filter(({ replica }) => replica !== undefined).length
  const drained = move.steps.reduce(
    (sum, step) => sum + (step.action === 'drain' ? step.replicas.length : 0),
    0,
  )
  const staying = today.reduce((sum, { places }) => sum + replicas(places), 0) - drained
  return { steps: move.steps, staying, mostGpus: Object.fromEntries(move.most) }
}

const hoursOfDay = 24

class Move {
  readonly steps: MigrationStep[] = []
  readonly most = new Map<string, number>()
  private readonly blocks: Changing[]
  private readonly pending: Block[]
  /** Emptied, of each kind. */
  private readonly free = new Map<string, number>()
  private readonly limits: ReadonlyMap<string, number>
  /** Parts of the day. */
  private readonly parts: number
  /** What each model's replicas carry now, in each of them. */
  private readonly carried = new Map<string, number[]>()
  /** Models that are short in each. */
  private readonly shortIn: number[]

  constructor(
    today: readonly Block[],
    private readonly plan: readonly Block[],
    limitOf: (kind: string) => number,
    private readonly askedRps: ReadonlyMap<string, readonly number[]>,
  ) {
    const { blocks, pending } = matched(today, plan)
    this.blocks = blocks
    this.pending = pending
    const kinds = [...new Set([...today, ...plan].map(({ kind }) => kind))]
    this.limits = new Map(kinds.map((kind) => [kind, Math.max(limitOf(kind), this.inUse(kind))]))
    for (const kind of kinds) this.most.set(kind, this.inUse(kind))
    this.parts = Math.max(hoursOfDay, ...[...askedRps.values()].map(({ length }) => length))
    this.shortIn = Array.from(
      { length: this.parts },
      (_, part) => [...askedRps.values()].filter((asked) => !carries(0, asked[part]!)).length,
    )
    for (const { places } of blocks) this.counted(places, 1)
  }

  /** Takes one step; false where nothing is left to do. */
  next(): boolean {
    return (
      this.fill() ||
      this.bringUp('emptied', ({ kind, gpus }) => (this.free.get(kind) ?? 0) >= gpus) ||
      this.bringUp('one more', (block) => this.withOneMore(block) <= this.planned(block.kind)) ||
      this.drain(this.drains().filter(({ lost, needed }) => needed && this.carriesWithout(lost))) ||
      this.bringUp('one more', (block) => this.mayHaveMore(block)) ||
      this.giveUp() ||
      this.drain(this.drains().filter(({ needed }) => needed)) ||
      this.drain(this.drains())
    )
  }

  /** Starts what belongs on free slices of GPUs that stay cut. */
  private fill(): boolean {
    for (const block of this.blocks) {
      const starting =
        block.goal?.filter((wanted, i) => !isUsed(block.places[i]!) && isUsed(wanted)) ?? []
      if (starting.length === 0) continue
      block.places = block.places.map((place, i) => (isUsed(place) ? place : block.goal![i]!))
      this.counted(starting, 1)
      this.told({
        action: 'bring up',
        kind: block.kind,
        gpus: block.gpus,
        on: 'as it is cut',
        replicas: saidOn(starting),
      })
      return true
    }
    return false
  }

  /** Those that carry most first. */
  private bringUp(on: 'emptied' | 'one more', fits: (block: Block) => boolean): boolean {
    const block = this.pending.filter(fits).sort((a, b) => rateOf(b.places) - rateOf(a.places))[0]
    if (block === undefined) return false
    this.pending.splice(this.pending.indexOf(block), 1)
    const emptied = this.free.get(block.kind) ?? 0
    this.free.set(block.kind, emptied - Math.min(emptied, block.gpus))
    this.blocks.push({ ...block, goal: block.places })
    this.counted(block.places, 1)
    const cut = block.places.map(({ slice }) => slice)
    this.told({
      action: 'bring up',
      kind: block.kind,
      gpus: block.gpus,
      on,
      cut,
      replicas: saidOn(block.places),
    })
    return true
  }

  private withOneMore({ kind, gpus }: Changing): number {
    return this.inUse(kind) - (this.free.get(kind) ?? 0) + gpus
  }

  private mayHaveMore(block: Changing): boolean {
    return this.withOneMore(block) <= this.limits.get(block.kind)!
  }

  /** GPUs of a kind in the end: one more of these is no detour. */
  private planned(kind: string): number {
    return this.plan.reduce((sum, block) => sum + (block.kind === kind ? block.gpus : 0), 0)
  }

  /**
   * Of a GPU that was to stay cut: what waits for a place there is brought up on one more instead.
   * Nothing is told yet.
   */
  private giveUp(): boolean {
    const waiting = this.drains().find(
      ({ block, needed }) => needed && block.goal !== undefined && this.mayHaveMore(block),
    )
    if (waiting === undefined) return false
    const { kind, gpus, places, goal } = waiting.block
    this.blocks[this.blocks.indexOf(waiting.block)] = { kind, gpus, places }
    this.pending.push({ kind, gpus, places: goal! })
    return true
  }

  /**
   * What may be drained at once: a GPU that goes, or the slices of one that stays cut which are to
   * be another's.
   */
  private drains(): Drain[] {
    return this.blocks.flatMap((block): Drain[] => {
      const goes = block.places.map(
        ({ replica }, i) =>
          replica !== undefined && !sameReplica(replica, block.goal?.[i]?.replica),
      )
      if (block.goal === undefined) {
        const needed = this.pending.some(({ kind }) => kind === block.kind)
        return [{ block, goes, lost: block.places, needed }]
      }
      // One by one: each is filled again before the next.
      return goes.flatMap((leaves, at): Drain[] =>
        leaves
          ? [
              {
                block,
                goes: goes.map((_, i) => i === at),
                lost: [block.places[at]!],
                needed: isUsed(block.goal![at]!),
              },
            ]
          : [],
      )
    })
  }

  /** The one that is short in the fewest hours, and of these by the least. */
  private drain(possible: readonly Drain[]): boolean {
    const judged = possible.map((drain) => ({
      drain,
      hours: this.hoursOf(drain.lost).length,
      least: this.leastShare(drain.lost),
    }))
    const best = judged.sort((a, b) => b.hours - a.hours || b.least - a.least)[0]?.drain
    if (best === undefined) return false
    const { block, goes, lost } = best
    block.places = block.places.map((place, i) => (goes[i] ? { slice: place.slice } : place))
    this.counted(lost, -1)
    let givenBack = 0
    if (block.goal === undefined) {
      this.blocks.splice(this.blocks.indexOf(block), 1)
      const free = (this.free.get(block.kind) ?? 0) + block.gpus
      const wanted = this.pending.reduce(
        (sum, { kind, gpus }) => sum + (kind === block.kind ? gpus : 0),
        0,
      )
      givenBack = Math.max(0, free - wanted)
      this.free.set(block.kind, free - givenBack)
    }
    this.told({
      action: 'drain',
      kind: block.kind,
      gpus: block.gpus,
      ...(givenBack > 0 && { givenBack }),
      replicas: saidOn(lost),
    })
    return true
  }

  private told(step: Omit<MigrationStep, 'gpusInUse' | 'hours' | 'short'>): void {
    const gpusInUse = Object.fromEntries(
      [...this.limits.keys()].map((kind) => [kind, this.inUse(kind)]),
    )
    for (const [kind, count] of Object.entries(gpusInUse))
      this.most.set(kind, Math.max(this.most.get(kind)!, count))
    const short = [...this.askedRps].flatMap(([model, asked]) => {
      const now = this.nowOf(model)
      const missed = asked
        .map((demandRps, part) => ({ carriesRps: now[part]!, demandRps }))
        .filter((at) => !carries(at.carriesRps, at.demandRps))
      const worst = missed.sort(
        (a, b) => a.carriesRps / a.demandRps - b.carriesRps / b.demandRps,
      )[0]
      return worst ? [{ model, ...worst }] : []
    })
    this.steps.push({ ...step, gpusInUse, hours: this.hoursOf([]), short })
  }

  private inUse(kind: string): number {
    const standing = this.blocks.reduce(
      (sum, block) => sum + (block.kind === kind ? block.gpus : 0),
      0,
    )
    return standing + (this.free.get(kind) ?? 0)
  }

  private nowOf(model: string): number[] {
    const now = this.carried.get(model) ?? new Array<number>(this.parts).fill(0)
    this.carried.set(model, now)
    return now
  }

  /** @param sign 1: they are there now; -1: no longer */
  private counted(places: readonly Place[], sign: 1 | -1): void {
    for (const [model, rates] of ratesOf(places, this.parts)) {
      const now = this.nowOf(model)
      const asked = this.askedRps.get(model)
      for (const [part, rps] of rates.entries()) {
        const before = carries(now[part]!, asked?.[part] ?? 0)
        now[part]! += sign * rps
        this.shortIn[part]! += Number(before) - Number(carries(now[part]!, asked?.[part] ?? 0))
      }
    }
  }

  private carriesWithout(lost: readonly Place[]): boolean {
    return this.hoursOf(lost).length === hoursOfDay
  }

  /** Hours in which every model is carried by what is left without these. */
  private hoursOf(lost: readonly Place[]): number[] {
    const short = [...this.shortIn]
    for (const [model, rates] of ratesOf(lost, this.parts)) {
      const now = this.nowOf(model)
      for (const [part, asked] of (this.askedRps.get(model) ?? []).entries())
        if (carries(now[part]!, asked) && !carries(now[part]! - rates[part]!, asked)) short[part]!++
    }
    const each = this.parts / hoursOfDay
    return Array.from({ length: hoursOfDay }, (_, hour) => hour).filter((hour) =>
      short.slice(hour * each, (hour + 1) * each).every((count) => count === 0),
    )
  }

  /** Of what is asked, what the model that these are missed by most still carries at its worst. */
  private leastShare(lost: readonly Place[]): number {
    const shares = [...ratesOf(lost, this.parts)].flatMap(([model, rates]) => {
      const now = this.nowOf(model)
      return (this.askedRps.get(model) ?? []).map(
        (asked, part) => (now[part]! - rates[part]!) / Math.max(1e-9, asked),
      )
    })
    return Math.min(1, ...shares)
  }
}

interface Drain {
  readonly block: Changing
  readonly goes: readonly boolean[]
  readonly lost: readonly Place[]
  /** Something waits for its place. */
  readonly needed: boolean
}

const carries = (rps: number, demandRps: number): boolean => rps >= demandRps * (1 - 1e-9)

/** Each GPU of the plan on one of today that is cut alike, those first that have most in common. */
function matched(
  running: readonly Block[],
  wanted: readonly Block[],
): { blocks: Changing[]; pending: Block[] } {
  // Told apart by what they are, not by what they hold.
  const [today, plan] = [running, wanted].map((all) => all.map((block) => ({ ...block }))) as [
    Block[],
    Block[],
  ]
  const cutOf = ({ kind, gpus, places }: Block) =>
    JSON.stringify([kind, gpus, places.map(({ slice }) => slice).sort()])
  const blocks: Changing[] = []
  const common = (a: Block, b: Block) =>
    alignedTo(a.places, b.places).filter(
      ({ replica }, i) => replica && sameReplica(replica, a.places[i]!.replica),
    ).length
  const olds = grouped(today, cutOf)
  const pairs = plan.flatMap((block) =>
    (olds.get(cutOf(block)) ?? []).map((old) => ({ block, old, common: common(block, old) })),
  )
  const paired = new Set<Block>()
  for (const { block, old } of pairs.sort((a, b) => b.common - a.common)) {
    if (paired.has(block) || paired.has(old)) continue
    paired.add(block).add(old)
    blocks.push({
      kind: block.kind,
      gpus: block.gpus,
      places: alignedTo(block.places, old.places),
      goal: block.places,
    })
  }
  const unpaired = (all: readonly Block[]) => all.filter((block) => !paired.has(block))
  return { blocks: [...blocks, ...unpaired(today)], pending: unpaired(plan) }
}
