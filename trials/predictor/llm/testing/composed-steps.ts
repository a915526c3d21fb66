/** Steps of the composed tables: the operations of the step model and nothing else. */
import { computeStepParts, type LlmDevice, type StepWork, stepCoefficients } from '../step-model.ts'

/**
 * Time of a step, ms; 0 for one without tokens.
 * @throws DeviceModelError for arithmetic or a quantisation that the GPU does not have
 */
export function composedStepTimes(device: LlmDevice): (work: StepWork) => number {
  const parts = computeStepParts(device)
  const c = stepCoefficients
  return (work) => {
    if (work.prefillTokens + work.decodes === 0) return 0
    const p = parts(work)
    return (
      c.layers * p.layers +
      c.weights * p.weights +
      c.weights8 * p.weights8 +
      c.cache * p.cache +
      c.flops16 * p.flops16 +
      c.flops8 * p.flops8 +
      p.exchanges +
      p.exchanged
    )
  }
}
