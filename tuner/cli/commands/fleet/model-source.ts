/** Measurements of a fleet's models, and what deploys them. */
import { FleetError, type Segment, wholeGpu } from '../../../../reports/fleet/packing.ts'
import { readSegments } from '../../../../reports/fleet/segment-table.ts'
import { listCandidates } from '../../../../reports/recommendation/candidates.ts'
import { parseResources } from '../../../../trials/resources.ts'
import { readGivenFile } from '../../../given-file.ts'
import { type ReopenedExperiment, reopenExperiment } from '../reopen-experiment.ts'
import type { FleetModelEntry } from './fleet-file.ts'

export interface ModelSource {
  readonly segments: readonly Segment[]
  /** Absent: the source is a table. */
  readonly reopened?: ReopenedExperiment
}

/** @throws FleetError, UserError and what reading an experiment throws */
export async function readModelSource(
  { name, table, gpu, sloMs, experiment }: FleetModelEntry,
  db: string,
): Promise<ModelSource> {
  if (table !== undefined) {
    const text = readGivenFile(table, `the table of ${name}`, '--file', 'table')
    return { segments: readSegments(text, table, gpu, sloMs) }
  }
  const reopened = await reopenExperiment(experiment, {
    db,
    ...(sloMs !== undefined && { slo: `${sloMs}ms` }),
  })
  const segments = listSegments(reopened)
  if (segments.length > 0) return { segments, reopened }
  throw new FleetError(
    `experiment ${experiment} has no configuration of ${name} that serves on a whole GPU or a MIG slice`,
    'tune fleet does not pack configurations on shares of a GPU or with prefill and decode pools; measure whole GPUs, or tune migProfile',
  )
}

function listSegments({ experiment, recommendation }: ReopenedExperiment): Segment[] {
  return listCandidates(recommendation).flatMap((candidate): Segment[] => {
    const { configuration, feasible, capacityRps: rateRps, label, trial } = candidate
    const resources = parseResources(configuration, {}, experiment.own.gpus)
    const { gpu, gpus, gpuShare, migProfile, pools } = resources
    const isShare = gpuShare < 1 && migProfile === undefined
    // The servers of pools may stand on several nodes.
    if (gpu === undefined || isShare || pools !== undefined || !feasible || rateRps <= 0) return []
    return [{ gpu, slice: migProfile ?? wholeGpu, gpus, rateRps, label, trial }]
  })
}
