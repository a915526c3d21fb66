/** Pipelines: several models behind one entry, and how often a request visits each of them. Pure. */
import { suggestNames } from '../near-names.ts'

/** Calls of one stage to another, for each request that the caller serves. */
export interface StageCall {
  readonly stage: string
  /**
   * Mean number of calls: 0.3 is a branch that 30 % of the requests take, 3 is a fan-out of three
   * calls, 2.5 is two or three calls.
   */
  readonly ratio: number
}

export interface Stage {
  readonly name: string
  /** In the order of the calls. They follow the stage's own work. */
  readonly calls: readonly StageCall[]
  /** All calls are made at once; otherwise each waits for the answer of the one before. */
  readonly parallelCalls: boolean
}

export interface Pipeline {
  /** Callers before the stages that they call; the first is the entry, which receives the load. */
  readonly stages: readonly Stage[]
}

interface PipelineFault {
  readonly kind: 'unknown-name' | 'cycle' | 'entries'
  /** The stage at fault. */
  readonly stage: string
  /** The called stage, if a call is at fault. */
  readonly call?: string
  readonly what: string
  readonly hint: string
}

/**
 * Orders stages so that callers come first.
 * @returns the pipeline, or every fault: unknown names, cycles, no entry or several
 */
export function buildPipeline(
  stages: readonly Stage[],
): { readonly pipeline: Pipeline; readonly faults: [] } | { readonly faults: PipelineFault[] } {
  const byName = new Map(stages.map((stage) => [stage.name, stage]))
  const faults: PipelineFault[] = stages.flatMap(({ name, calls }) =>
    calls
      .filter((call) => !byName.has(call.stage))
      .map((call) => ({
        kind: 'unknown-name' as const,
        stage: name,
        call: call.stage,
        what: `stage ${name} calls '${call.stage}', but no stage has this name`,
        hint: suggestNames(call.stage, [...byName.keys()]),
      })),
  )
  faults.push(
    ...findCycles(byName).map((cycle) => ({
      kind: 'cycle' as const,
      stage: cycle[0]!,
      what: `stages call each other in a circle: ${[...cycle, cycle[0]].join(' → ')}`,
      hint: 'remove one of these calls',
    })),
  )
  if (faults.length > 0) return { faults }
  const called = new Set(stages.flatMap(({ calls }) => calls.map(({ stage }) => stage)))
  const entries = stages.filter(({ name }) => !called.has(name))
  if (entries.length > 1)
    return {
      faults: entries.slice(1).map(({ name }) => ({
        kind: 'entries' as const,
        stage: name,
        what: `no stage calls ${name}, and no stage calls ${entries[0]!.name}: a pipeline has one entry`,
        hint: `add ${name} to the calls of another stage, or remove it`,
      })),
    }
  const ordered: Stage[] = []
  const placed = new Set<string>()
  const place = (stage: Stage) => {
    if (placed.has(stage.name)) return
    placed.add(stage.name)
    for (const { stage: name } of [...stage.calls].reverse()) place(byName.get(name)!)
    ordered.unshift(stage)
  }
  for (const entry of entries) place(entry)
  return { pipeline: { stages: ordered }, faults: [] }
}

/** One cycle for each stage from which a walk first meets it. */
function findCycles(byName: ReadonlyMap<string, Stage>): string[][] {
  const cycles: string[][] = []
  const done = new Set<string>()
  const walk = (name: string, path: readonly string[]) => {
    const seenAt = path.indexOf(name)
    if (seenAt >= 0) cycles.push(path.slice(seenAt))
    if (seenAt >= 0 || done.has(name)) return
    for (const { stage } of byName.get(name)?.calls ?? []) walk(stage, [...path, name])
    done.add(name)
  }
  for (const name of byName.keys()) walk(name, [])
  return cycles
}

/** Mean visits to each stage for each request at the entry. */
export function computeVisitRatios({ stages }: Pipeline): ReadonlyMap<string, number> {
  const visits = new Map(stages.map(({ name }, i) => [name, i === 0 ? 1 : 0]))
  for (const { name, calls } of stages)
    for (const { stage, ratio } of calls)
      visits.set(stage, visits.get(stage)! + ratio * visits.get(name)!)
  return visits
}
