import type { Configuration } from '../../search/types.ts'
import { describeMeasured, type MeasuredWith } from '../../trials/measured-with.ts'
import type { Provenance } from '../../trials/types.ts'
import type { Experiment } from './types.ts'

/** Server, engine and weights that the trials of a configuration measure (its provenance). */
export const resolveMeasuredWith = (
  experiment: Experiment,
  provenance: Provenance,
  configuration: Configuration,
): MeasuredWith =>
  describeMeasured(
    {
      predictor: experiment.predictor,
      own: experiment.own,
      provenance,
      image: experiment.kubernetes?.image,
    },
    configuration,
  )
