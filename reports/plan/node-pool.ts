/**
 * Nodes as a cluster autoscaler brings and takes them: one when pods find no place, gone when it
 * was not needed for ten minutes (its defaults).
 */
import type { FleetUnit } from './replica.ts'

const unneededSeconds = 600

export class NodePool {
  readonly #unit: FleetUnit
  /** The most nodes needed since each time, falling: the first says how many are held. */
  readonly #needed: { at: number; nodes: number }[] = []

  constructor(unit: FleetUnit) {
    this.#unit = unit
  }

  /** For how long it remembers what was needed, seconds. */
  get memorySeconds(): number {
    return this.#unit.nodeSeconds > 0 ? unneededSeconds : 0
  }

  /** In how many seconds the pods serve that are ordered beyond those there are. */
  places(at: number, pods: number, wanted: number): { inSeconds: number; count: number }[] {
    const { startupSeconds, nodeSeconds, perNode } = this.#unit
    const ordered = Math.max(0, wanted - pods)
    const free = nodeSeconds > 0 ? Math.max(0, this.#held(at) * perNode - pods) : ordered
    return [
      { inSeconds: startupSeconds, count: Math.min(ordered, free) },
      { inSeconds: nodeSeconds + startupSeconds, count: Math.max(0, ordered - free) },
    ].filter(({ count }) => count > 0)
  }

  needs(at: number, pods: number): void {
    const nodes = Math.ceil(pods / this.#unit.perNode - 1e-9)
    let since = at
    while (this.#needed.length > 0 && this.#needed.at(-1)!.nodes <= nodes)
      since = this.#needed.pop()!.at
    this.#needed.push({ at: since, nodes })
    this.#held(at)
  }

  /** Replicas' places that are paid for. */
  paid(pods: number): number {
    return this.#unit.nodeSeconds > 0 ? (this.#needed[0]?.nodes ?? 0) * this.#unit.perNode : pods
  }

  #held(at: number): number {
    while (this.#needed.length > 1 && this.#needed[1]!.at <= at - unneededSeconds)
      this.#needed.shift()
    return this.#needed[0]?.nodes ?? 0
  }
}
