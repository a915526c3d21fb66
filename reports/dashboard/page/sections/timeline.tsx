/** Timeline of the trials. */
import { significant } from '../../../format.ts'
import { createTimelineOption } from '../../charts/analysis-charts.ts'
import type { Answer } from '../answer.ts'
import { TrialChart } from '../chart.tsx'

/** Later trials are not drawn: bars of less than a pixel would be unreadable. */
const maxDrawn = 5_000

export function Timeline({ answer }: { answer: Answer }) {
  const { trials, theme } = answer
  if (trials.length === 0) return null
  const seconds = trials.reduce((sum, t) => sum + t.seconds, 0)
  const count = (state: string) => trials.filter((t) => t.state === state).length
  const words = `${significant(seconds / 60)} minutes of trials: ${count('complete')} measured (blue; confirmations green), ${count('infeasible')} that cannot serve (orange), ${count('failed')} failed (red).${trials.length > maxDrawn ? ` The first ${maxDrawn} are shown.` : ''}`
  return (
    <>
      <h2>Timeline</h2>
      <TrialChart
        answer={answer}
        name="timeline"
        altText={words}
        size="strip"
        createOption={() => createTimelineOption(trials.slice(0, maxDrawn), theme)}
      />
      <p class="note">{words}</p>
    </>
  )
}
