/** Places the stages of a pipeline in columns: every caller left of the stages that it calls. */
import type { Stage } from '../../../trials/pipeline/pipeline.ts'

export interface PlacedStage extends Stage {
  /** From 0, by the longest chain of calls that leads to the stage. */
  readonly column: number
  /** From 0, within the column. */
  readonly row: number
}

/** @param stages callers first */
export function arrangeStages(stages: readonly Stage[]): PlacedStage[] {
  const columns = new Map(stages.map(({ name }) => [name, 0]))
  for (const { name, calls } of stages)
    for (const { stage } of calls)
      columns.set(stage, Math.max(columns.get(stage)!, columns.get(name)! + 1))
  const filled = new Map<number, number>()
  return stages.map((stage) => {
    const column = columns.get(stage.name)!
    const row = filled.get(column) ?? 0
    filled.set(column, row + 1)
    return { ...stage, column, row }
  })
}
