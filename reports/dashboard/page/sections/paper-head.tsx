import { getMetric, getObjectiveWords } from '../../../../search/objective.ts'
import { sloText } from '../../../format.ts'
import type { Answer } from '../answer.ts'

/** Print header instead of the input fields: experiment, SLO, objective, prices. */
export function PaperHead({ answer: { experiment, whatIf, isUnchanged } }: { answer: Answer }) {
  const { slo, objective, prices } = whatIf
  const metric = getMetric(objective)
  const { choice } = getObjectiveWords(objective.kind)
  return (
    <>
      {`${experiment.name} (${experiment.id}), ${experiment.createdAt.slice(0, 16).replace('T', ' ')} UTC. Objective: ${choice}${metric === undefined ? '' : ` (${metric})`}, ${sloText(slo)}, prices: ${prices.name} (${prices.currency})${isUnchanged ? '' : '; these differ from the settings of the experiment'}.`}
    </>
  )
}
