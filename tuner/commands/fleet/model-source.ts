/** What is known of a fleet's models, and what deploys it. */
import type { Slo } from '../../../profiler/types.ts'
import {
  FleetError,
  type FleetModel,
  type Segment,
  type Turning,
  whole,
} from '../../../reports/fleet/packing.ts'
import { readSegments } from '../../../reports/fleet/segment-table.ts'
import { candidatesOf } from '../../../reports/recommendation/candidates.ts'
import { resourcesOf } from '../../../trials/resources.ts'
import { givenText } from '../../given-file.ts'
import { type Reopened, reopen } from '../reopened.ts'
import type { FleetFile, FleetModelEntry } from './fleet-file.ts'
import { estimatedFrom, joinedClasses } from './request-sizes.ts'

export interface ModelSource extends Omit<FleetModel, 'name'> {
  /** Absent: a table, or nothing that was measured. */
  readonly reopened?: Reopened
  /** Of its classes, where they were measured by themselves. */
  readonly byClass?: ReadonlyMap<string, ModelSource>
}

/** @throws FleetError, UserError and what reading an experiment throws */
export async function openSource(
  entry: FleetModelEntry,
  db: string,
  { kinds, folder, perNode }: FleetFile,
): Promise<ModelSource> {
  const { name, classes, llm } = entry
  if (llm) return estimatedFrom(name, llm.entry, llm.slo, folder, kinds, perNode)
  if (!classes) return measuredSource(entry, db)
  const byClass = new Map<string, ModelSource>()
  for (const of of classes) byClass.set(of.name, await measuredSource(of, db))
  const { buckets, segments } = joinedClasses(
    name,
    classes.map((of) => ({
      name: of.name,
      share: of.share,
      segments: byClass.get(of.name)!.segments,
    })),
  )
  return { buckets, segments, byClass }
}

type Measured = Pick<FleetModelEntry, 'name' | 'experiment' | 'table' | 'gpu' | 'sloMs'>

export async function measuredSource(
  { name, table, gpu, sloMs, experiment }: Measured,
  db: string,
): Promise<ModelSource> {
  if (table !== undefined)
    return {
      segments: readSegments(
        givenText(table, `the table of ${name}`, '--file', 'data'),
        table,
        gpu,
        sloMs,
      ),
    }
  const reopened = await reopen(experiment, {
    db,
    ...(sloMs !== undefined && { slo: `${sloMs}ms` }),
  })
  const { slo } = reopened.experiment
  const segments = candidatesOf(reopened.recommendation).flatMap((candidate): Segment[] => {
    const {
      gpu: on,
      gpus,
      gpuShare,
      migProfile,
      pools,
    } = resourcesOf(candidate.configuration, {}, reopened.experiment.own.gpus)
    // Their servers may stand on several nodes.
    if (pools !== undefined) return []
    if (
      on === undefined ||
      !candidate.feasible ||
      candidate.capacityRps <= 0 ||
      (gpuShare < 1 && migProfile === undefined)
    )
      return []
    const { launchSeconds: loadS, gpuMemoryMiB: memoryMiB } = candidate.usage ?? {}
    return [
      {
        ...{
          gpu: on,
          slice: migProfile ?? whole,
          gpus,
          rateRps: candidate.capacityRps,
          label: candidate.label,
          trial: candidate.trial,
        },
        // A virtual server starts in no time.
        ...(loadS && { loadS }),
        ...(memoryMiB && { memoryMiB }),
        ...(isOfAnswers(slo) && {
          latencyMs: candidate.sloMsAtCapacity,
          limitMs: slo.limitMs,
          idleMs: candidate.idleMs,
        }),
      },
    ]
  })
  if (segments.length > 0) return { segments, reopened }
  throw new FleetError(
    `experiment ${experiment} has no configuration of ${name} that serves on a whole GPU or a MIG slice`,
    'shares by MPS or time, and pools of prefill and decode servers, are not packed; measure whole GPUs, or migProfile',
  )
}

/** Whole answers, not parts of a stream. */
const isOfAnswers = ({ metric, limits }: Slo): boolean =>
  metric === undefined && limits === undefined

/**
 * How a model leaves memory and comes back, where the file lets it: the user's word, else the
 * slowest load that is known of it.
 * @returns undefined where it stays
 * @throws FleetError where nobody knows how long a load takes, or what its requests may wait
 */
export function turningOf(
  { name, turns, loadS, wakeS, endsEarlyS, classes, llm, table }: FleetModelEntry,
  { segments, reopened, byClass }: Pick<ModelSource, 'segments' | 'reopened' | 'byClass'>,
): Turning | undefined {
  if (turns === undefined) return undefined
  const measured = byClass ? [...byClass.values()].flatMap((source) => source.segments) : segments
  const known = measured.flatMap((segment) => segment.loadS ?? [])
  const ofTable = table !== undefined || classes?.some((one) => one.table !== undefined)
  const slowest = loadS ?? (known.length > 0 ? Math.max(...known) : undefined)
  if (slowest === undefined)
    throw new FleetError(
      `how long ${name} takes until it serves was not measured, and it is to take turns`,
      `say it: load: 90s${ofTable ? ', or in a column loadS of its table' : ''}; or keep it in memory: turns: never`,
    )
  const loadFrom =
    loadS !== undefined
      ? 'as given'
      : llm
        ? 'assumed, from its weights'
        : ofTable
          ? 'of its table'
          : 'measured'
  const early = endsEarlyS === undefined ? {} : { endsEarlyS }
  // Requests that are told apart are routed by what is there: none waits for a load.
  if (turns === 'byHour' || classes || llm) return { loadS: slowest, loadFrom, ...early }
  if (segments.every(({ limitMs }) => limitMs === undefined))
    throw new FleetError(
      `what requests of ${name} may wait for a load is not known`,
      'give its slo:, a time that whole answers keep; or let it take turns by the hours: turns: byHour',
    )
  const percentile = reopened?.experiment.slo.percentile ?? 0.99
  return {
    loadS: slowest,
    loadFrom,
    ...early,
    onDemand: { percentile, ...(wakeS !== undefined && { wakeS }) },
  }
}
