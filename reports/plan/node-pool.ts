/**
 * Nodes under a cluster autoscaler with its defaults: it adds a node when pods have no room, and
 * removes one that was not needed for ten minutes.
 */
import type { FleetUnit } from './replica.ts'

const unneededSeconds = 600

export class NodePool {
  readonly #unit: FleetUnit
  /** Highest number of nodes needed since each time, falling; the first is the number of nodes now. */
  readonly #needed: { at: number; nodes: number }[] = []

  constructor(unit: FleetUnit) {
    this.#unit = unit
  }

  /** For how long a need is remembered, seconds. */
  get memorySeconds(): number {
    return this.#unit.nodeSeconds > 0 ? unneededSeconds : 0
  }

  /** After how many seconds new pods serve: on free room, and on new nodes. */
  orderPods(at: number, pods: number, wanted: number): { inSeconds: number; count: number }[] {
    const { startupSeconds, nodeSeconds, replicasPerNode } = this.#unit
    const ordered = Math.max(0, wanted - pods)
    const free =
      nodeSeconds > 0 ? Math.max(0, this.#countNodes(at) * replicasPerNode - pods) : ordered
    return [
      { inSeconds: startupSeconds, count: Math.min(ordered, free) },
      { inSeconds: nodeSeconds + startupSeconds, count: Math.max(0, ordered - free) },
    ].filter(({ count }) => count > 0)
  }

  /** Records how many pods are needed from a time on. */
  requirePods(at: number, pods: number): void {
    const nodes = Math.ceil(pods / this.#unit.replicasPerNode - 1e-9)
    let since = at
    while (this.#needed.length > 0 && this.#needed.at(-1)!.nodes <= nodes)
      since = this.#needed.pop()!.at
    this.#needed.push({ at: since, nodes })
    this.#countNodes(at)
  }

  /** Replicas paid for, free room on nodes included. */
  countPaidReplicas(pods: number): number {
    return this.#unit.nodeSeconds > 0
      ? (this.#needed[0]?.nodes ?? 0) * this.#unit.replicasPerNode
      : pods
  }

  #countNodes(at: number): number {
    while (this.#needed.length > 1 && this.#needed[1]!.at <= at - unneededSeconds)
      this.#needed.shift()
    return this.#needed[0]?.nodes ?? 0
  }
}
