/** What was measured of a fleet's models, and what deploys it. */
import { FleetError, type Segment, whole } from '../../../reports/fleet/packing.ts'
import { readSegments } from '../../../reports/fleet/segment-table.ts'
import { candidatesOf } from '../../../reports/recommendation/candidates.ts'
import { resourcesOf } from '../../../trials/resources.ts'
import { givenText } from '../../given-file.ts'
import { type Reopened, reopen } from '../reopened.ts'
import type { FleetModelEntry } from './fleet-file.ts'

export interface ModelSource {
  readonly segments: readonly Segment[]
  /** Absent: a table. */
  readonly reopened?: Reopened
}

/** @throws FleetError, UserError and what reading an experiment throws */
export async function openSource({ name, table, gpu, sloMs, experiment }: FleetModelEntry, db: string): Promise<ModelSource> {
  if (table !== undefined) return { segments: readSegments(givenText(table, `the table of ${name}`, '--file', 'data'), table, gpu, sloMs) }
  const reopened = await reopen(experiment, { db, ...(sloMs !== undefined && { slo: `${sloMs}ms` }) })
  const segments = candidatesOf(reopened.recommendation).flatMap((candidate): Segment[] => {
    const { gpu: on, gpus, gpuShare, migProfile } = resourcesOf(candidate.configuration, {}, reopened.experiment.own.gpus)
    if (on === undefined || !candidate.feasible || candidate.capacityRps <= 0 || (gpuShare < 1 && migProfile === undefined)) return []
    return [{ gpu: on, slice: migProfile ?? whole, gpus, rateRps: candidate.capacityRps, label: candidate.label, trial: candidate.trial }]
  })
  if (segments.length > 0) return { segments, reopened }
  throw new FleetError(
    `experiment ${experiment} has no configuration of ${name} that serves on a whole GPU or a MIG slice`,
    'shares by MPS or time are not packed; measure whole GPUs, or migProfile',
  )
}
