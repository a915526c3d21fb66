/** The joint space of several stages, whose parameters are named `stage.parameter`. */
import type { Condition, Parameter, SearchSpace } from '../../search/types.ts'
import { nameStageParameter, pickStage } from '../../trials/pipeline/stage-configuration.ts'
import type { Report } from './context.ts'
import { maxParameters } from './default-space.ts'

/** The space of a stage with the names of the joint space. */
export function liftSpace(stage: string, { parameters, constraints }: SearchSpace): SearchSpace {
  const lift = ({ text, holds }: Condition): Condition => ({
    text: `${stage}: ${text}`,
    holds: (configuration) => holds(pickStage(configuration, stage)),
  })
  return {
    parameters: parameters.map((parameter) => ({
      ...parameter,
      name: nameStageParameter(stage, parameter.name),
      ...(parameter.when && { when: lift(parameter.when) }),
    })),
    constraints: constraints.map(lift),
  }
}

/** Reports a joint space with too many parameters. */
export function limitParameters(
  parameters: readonly Parameter[],
  report: Report,
  hint: string,
): void {
  if (parameters.length > maxParameters)
    report(
      ['stages'],
      `the stages have ${parameters.length} parameters together, over the maximum of ${maxParameters}`,
      hint,
    )
}
