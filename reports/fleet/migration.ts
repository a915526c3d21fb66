/**
 * In which order a fleet is reached from what runs today: bring up, shift, drain, so that what stands carries the demand after every step on no more GPUs than there are.
 *
 * GPUs that are cut today as the plan has them stay cut, and change slice by slice. Others are drained whole and cut anew; first those that the demand can spare, then, where
 * there are more GPUs to be had, with one more of them, which also takes over from a GPU that could not change slice by slice without a gap. Only then is a step taken that
 * leaves too little, the one that does so in the fewest hours. It is an order, not the shortest one.
 */
import { grouped } from '../../trials/grouped.ts'
import { type PackedGpu, whole } from './packing.ts'

interface Replica {
  readonly model: string
  readonly rateRps: number
}

interface Place {
  readonly slice: string
  readonly replica?: Replica
}

/** One GPU, or as many whole ones as a replica stands on. */
export interface Block {
  readonly kind: string
  readonly gpus: number
  readonly places: readonly Place[]
}

export interface MigrationStep {
  readonly action: 'bring up' | 'drain'
  readonly kind: string
  readonly gpus: number
  /** Where replicas are brought up: a GPU of today that was emptied, one more, or free slices of one that stays cut. */
  readonly on?: 'emptied' | 'one more' | 'as it is cut'
  /** Of what is cut anew, all its slices. */
  readonly cut?: readonly string[]
  /** Emptied GPUs that nobody needs any more. */
  readonly givenBack?: number
  readonly replicas: readonly (Replica & { readonly slice: string })[]
  /** After the step, of each kind. */
  readonly gpusInUse: Readonly<Record<string, number>>
  /** Hours of the day in which what stands after the step carries the demand of every model. */
  readonly hours: readonly number[]
  /** Models that their highest rate would find short after the step. */
  readonly short: readonly { readonly model: string; readonly carriesRps: number; readonly demandRps: number }[]
}

export interface Migration {
  readonly steps: readonly MigrationStep[]
  /** Replicas of today that stay as they are. */
  readonly staying: number
  /** The most GPUs in use at once, of each kind. */
  readonly mostGpus: Readonly<Record<string, number>>
}

/** GPUs of a packing, those of a replica on several taken together. */
export function blocksOf(gpus: readonly PackedGpu[]): Block[] {
  const single: Block[] = []
  const shared = new Map<string, number>()
  for (const { kind, slots } of gpus) {
    const segment = slots[0]?.segment
    if (segment === undefined || segment.gpus === 1) {
      single.push({
        kind,
        gpus: 1,
        places: slots.map(({ slice, model, segment: on }) =>
          model && on ? { slice, replica: { model, rateRps: on.rateRps } } : { slice },
        ),
      })
      continue
    }
    const replica = { model: slots[0]!.model!, rateRps: segment.rateRps }
    const key = JSON.stringify([kind, segment.gpus, replica])
    const seen = (shared.get(key) ?? 0) + 1
    shared.set(key, seen)
    if (seen % segment.gpus === 0) single.push({ kind, gpus: segment.gpus, places: [{ slice: whole, replica }] })
  }
  return single
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
 * @param hoursRps of each model, what is asked in each hour of the day
 */
export function planMigration(
  today: readonly Block[],
  plan: readonly Block[],
  limitOf: (kind: string) => number,
  hoursRps: ReadonlyMap<string, readonly number[]>,
): Migration {
  const move = new Move(today, plan, limitOf, hoursRps)
  while (move.next()) {
    // Each step empties or fills a place for good, so it ends.
  }
  const replicas = (places: readonly Place[]) => places.filter(({ replica }) => replica !== undefined).length
  const drained = move.steps.reduce((sum, step) => sum + (step.action === 'drain' ? step.replicas.length : 0), 0)
  const staying = today.reduce((sum, { places }) => sum + replicas(places), 0) - drained
  return { steps: move.steps, staying, mostGpus: Object.fromEntries(move.most) }
}

class Move {
  readonly steps: MigrationStep[] = []
  readonly most = new Map<string, number>()
  private readonly blocks: Changing[]
  private readonly pending: Block[]
  /** Emptied, of each kind. */
  private readonly free = new Map<string, number>()
  private readonly limits: ReadonlyMap<string, number>
  /** What each model's replicas carry now. */
  private readonly carried = new Map<string, number>()
  /** Models that are short in each hour. */
  private readonly shortIn = new Array<number>(24).fill(0)

  constructor(
    today: readonly Block[],
    private readonly plan: readonly Block[],
    limitOf: (kind: string) => number,
    private readonly hoursRps: ReadonlyMap<string, readonly number[]>,
  ) {
    const { blocks, pending } = matched(today, plan)
    this.blocks = blocks
    this.pending = pending
    const kinds = [...new Set([...today, ...plan].map(({ kind }) => kind))]
    this.limits = new Map(kinds.map((kind) => [kind, Math.max(limitOf(kind), this.inUse(kind))]))
    for (const kind of kinds) this.most.set(kind, this.inUse(kind))
    for (const model of hoursRps.keys()) this.nowCarries(model, 0, 1)
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
      const starting = block.places.flatMap(({ slice, replica }, i) => {
        const wanted = block.goal?.[i]?.replica
        return replica === undefined && wanted !== undefined ? [{ slice, ...wanted }] : []
      })
      if (starting.length === 0) continue
      block.places = block.places.map((place, i) => (place.replica === undefined ? block.goal![i]! : place))
      this.counted(
        starting.map(({ slice, ...replica }) => ({ slice, replica })),
        1,
      )
      this.told({ action: 'bring up', kind: block.kind, gpus: block.gpus, on: 'as it is cut', replicas: starting })
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
    const replicas = block.places.flatMap(({ slice, replica }) => (replica ? [{ slice, ...replica }] : []))
    this.told({ action: 'bring up', kind: block.kind, gpus: block.gpus, on, cut: block.places.map(({ slice }) => slice), replicas })
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

  /** Of a GPU that was to stay cut: what waits for a place there is brought up on one more instead. Nothing is told yet. */
  private giveUp(): boolean {
    const waiting = this.drains().find(({ block, needed }) => needed && block.goal !== undefined && this.mayHaveMore(block))
    if (waiting === undefined) return false
    const { kind, gpus, places, goal } = waiting.block
    this.blocks[this.blocks.indexOf(waiting.block)] = { kind, gpus, places }
    this.pending.push({ kind, gpus, places: goal! })
    return true
  }

  /** What may be drained at once: a GPU that goes, or the slices of one that stays cut which are to be another's. */
  private drains(): Drain[] {
    return this.blocks.flatMap((block): Drain[] => {
      const goes = block.places.map(({ replica }, i) => replica !== undefined && !sameReplica(replica, block.goal?.[i]?.replica))
      if (block.goal === undefined) {
        const needed = this.pending.some(({ kind }) => kind === block.kind)
        return [{ block, goes, lost: block.places, needed }]
      }
      // One by one: each is filled again before the next.
      return goes.flatMap((leaves, at): Drain[] =>
        leaves
          ? [{ block, goes: goes.map((_, i) => i === at), lost: [block.places[at]!], needed: block.goal![at]!.replica !== undefined }]
          : [],
      )
    })
  }

  /** The one that is short in the fewest hours, and of these by the least. */
  private drain(possible: readonly Drain[]): boolean {
    const judged = possible.map((drain) => ({ drain, hours: this.hoursOf(drain.lost).length, least: this.leastShare(drain.lost) }))
    const best = judged.sort((a, b) => b.hours - a.hours || b.least - a.least)[0]?.drain
    if (best === undefined) return false
    const { block, goes, lost } = best
    const replicas = lost.flatMap(({ slice, replica }) => (replica ? [{ slice, ...replica }] : []))
    block.places = block.places.map(({ slice, replica }, i) => ({ slice, ...(replica && !goes[i] && { replica }) }))
    this.counted(lost, -1)
    let givenBack = 0
    if (block.goal === undefined) {
      this.blocks.splice(this.blocks.indexOf(block), 1)
      const free = (this.free.get(block.kind) ?? 0) + block.gpus
      const wanted = this.pending.reduce((sum, { kind, gpus }) => sum + (kind === block.kind ? gpus : 0), 0)
      givenBack = Math.max(0, free - wanted)
      this.free.set(block.kind, free - givenBack)
    }
    this.told({ action: 'drain', kind: block.kind, gpus: block.gpus, ...(givenBack > 0 && { givenBack }), replicas })
    return true
  }

  private told(step: Omit<MigrationStep, 'gpusInUse' | 'hours' | 'short'>): void {
    const gpusInUse = Object.fromEntries([...this.limits.keys()].map((kind) => [kind, this.inUse(kind)]))
    for (const [kind, count] of Object.entries(gpusInUse)) this.most.set(kind, Math.max(this.most.get(kind)!, count))
    const short = [...this.hoursRps].flatMap(([model, hours]) => {
      const [carriesRps, demandRps] = [this.carried.get(model) ?? 0, Math.max(...hours)]
      return carries(carriesRps, demandRps) ? [] : [{ model, carriesRps, demandRps }]
    })
    this.steps.push({ ...step, gpusInUse, hours: this.hoursOf([]), short })
  }

  private inUse(kind: string): number {
    const standing = this.blocks.reduce((sum, block) => sum + (block.kind === kind ? block.gpus : 0), 0)
    return standing + (this.free.get(kind) ?? 0)
  }

  /** @param sign 1: they are there now; -1: no longer */
  private counted(places: readonly Place[], sign: 1 | -1): void {
    for (const [model, rps] of ratesOf(places)) {
      const before = this.carried.get(model) ?? 0
      this.nowCarries(model, before, -1)
      this.nowCarries(model, before + sign * rps, 1)
    }
  }

  private nowCarries(model: string, rps: number, sign: 1 | -1): void {
    this.carried.set(model, rps)
    for (const [hour, asked] of (this.hoursRps.get(model) ?? []).entries()) if (!carries(rps, asked)) this.shortIn[hour]! += sign
  }

  private carriesWithout(lost: readonly Place[]): boolean {
    return this.hoursOf(lost).length === 24
  }

  /** Hours in which every model is carried by what is left without these. */
  private hoursOf(lost: readonly Place[]): number[] {
    const short = [...this.shortIn]
    for (const [model, rps] of ratesOf(lost)) {
      const now = this.carried.get(model) ?? 0
      for (const [hour, asked] of (this.hoursRps.get(model) ?? []).entries())
        if (carries(now, asked) && !carries(now - rps, asked)) short[hour]!++
    }
    return short.flatMap((count, hour) => (count === 0 ? [hour] : []))
  }

  /** Of its highest rate, what the model that these are missed by most still carries. */
  private leastShare(lost: readonly Place[]): number {
    const shares = [...ratesOf(lost)].map(
      ([model, rps]) => (this.carried.get(model)! - rps) / Math.max(1e-9, ...(this.hoursRps.get(model) ?? [])),
    )
    return Math.min(1, ...shares)
  }
}

/** What replicas carry, by model. */
function ratesOf(places: readonly Place[]): Map<string, number> {
  const rates = new Map<string, number>()
  for (const { replica } of places) if (replica) rates.set(replica.model, (rates.get(replica.model) ?? 0) + replica.rateRps)
  return rates
}

interface Drain {
  readonly block: Changing
  readonly goes: readonly boolean[]
  readonly lost: readonly Place[]
  /** Something waits for its place. */
  readonly needed: boolean
}

const carries = (rps: number, demandRps: number): boolean => rps >= demandRps * (1 - 1e-9)

const rateOf = (places: readonly Place[]): number => places.reduce((sum, { replica }) => sum + (replica?.rateRps ?? 0), 0)

const sameReplica = (a: Replica, b: Replica | undefined): boolean =>
  a.model === b?.model && Math.abs(a.rateRps - b.rateRps) <= 1e-9 * a.rateRps

/** Each GPU of the plan on one of today that is cut alike, those first that have most in common. */
function matched(running: readonly Block[], wanted: readonly Block[]): { blocks: Changing[]; pending: Block[] } {
  // Told apart by what they are, not by what they hold.
  const [today, plan] = [running, wanted].map((all) => all.map((block) => ({ ...block }))) as [Block[], Block[]]
  const cutOf = ({ kind, gpus, places }: Block) => JSON.stringify([kind, gpus, places.map(({ slice }) => slice).sort()])
  const blocks: Changing[] = []
  const common = (a: Block, b: Block) =>
    alignedTo(a.places, b.places).filter(({ replica }, i) => replica && sameReplica(replica, a.places[i]!.replica)).length
  const olds = grouped(today, cutOf)
  const pairs = plan.flatMap((block) => (olds.get(cutOf(block)) ?? []).map((old) => ({ block, old, common: common(block, old) })))
  const paired = new Set<Block>()
  for (const { block, old } of pairs.sort((a, b) => b.common - a.common)) {
    if (paired.has(block) || paired.has(old)) continue
    paired.add(block).add(old)
    blocks.push({ kind: block.kind, gpus: block.gpus, places: alignedTo(block.places, old.places), goal: block.places })
  }
  const unpaired = (all: readonly Block[]) => all.filter((block) => !paired.has(block))
  return { blocks: [...blocks, ...unpaired(today)], pending: unpaired(plan) }
}

/** The places of one in the order of another's that is cut alike: the same replica where there is one, else any of the slice. */
function alignedTo(goal: readonly Place[], places: readonly Place[]): Place[] {
  const left = [...places]
  const take = (fits: (place: Place) => boolean): Place | undefined => {
    const at = left.findIndex(fits)
    return at < 0 ? undefined : left.splice(at, 1)[0]
  }
  const same = goal.map(({ slice, replica }) =>
    take((place) => place.slice === slice && place.replica !== undefined && sameReplica(place.replica, replica)),
  )
  return goal.map(({ slice }, i) => same[i] ?? take((place) => place.slice === slice)!)
}
