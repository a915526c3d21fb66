/** What is known of a fleet's models, and what deploys it. */
import { FleetError, type FleetModel, type Segment, whole } from '../../../reports/fleet/packing.ts'
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
export async function openSource(entry: FleetModelEntry, db: string, { kinds, folder, perNode }: FleetFile): Promise<ModelSource> {
  const { name, classes, llm } = entry
  if (llm) return estimatedFrom(name, llm.entry, llm.slo, folder, kinds, perNode)
  if (!classes) return measuredSource(entry, db)
  const byClass = new Map<string, ModelSource>()
  for (const of of classes) byClass.set(of.name, await measuredSource(of, db))
  const { buckets, segments } = joinedClasses(
    name,
    classes.map((of) => ({ name: of.name, share: of.share, segments: byClass.get(of.name)!.segments })),
  )
  return { buckets, segments, byClass }
}

type Measured = Pick<FleetModelEntry, 'name' | 'experiment' | 'table' | 'gpu' | 'sloMs'>

async function measuredSource({ name, table, gpu, sloMs, experiment }: Measured, db: string): Promise<ModelSource> {
  if (table !== undefined) return { segments: readSegments(givenText(table, `the table of ${name}`, '--file', 'data'), table, gpu, sloMs) }
  const reopened = await reopen(experiment, { db, ...(sloMs !== undefined && { slo: `${sloMs}ms` }) })
  const segments = candidatesOf(reopened.recommendation).flatMap((candidate): Segment[] => {
    const { gpu: on, gpus, gpuShare, migProfile, pools } = resourcesOf(candidate.configuration, {}, reopened.experiment.own.gpus)
    // Their servers may stand on several nodes.
    if (pools !== undefined) return []
    if (on === undefined || !candidate.feasible || candidate.capacityRps <= 0 || (gpuShare < 1 && migProfile === undefined)) return []
    return [{ gpu: on, slice: migProfile ?? whole, gpus, rateRps: candidate.capacityRps, label: candidate.label, trial: candidate.trial }]
  })
  if (segments.length > 0) return { segments, reopened }
  throw new FleetError(
    `experiment ${experiment} has no configuration of ${name} that serves on a whole GPU or a MIG slice`,
    'shares by MPS or time, and pools of prefill and decode servers, are not packed; measure whole GPUs, or migProfile',
  )
}
