/** Note and tags of the experiment, and buttons to archive or delete it. */
import { experimentItself } from '../../../../trials/annotation.ts'
import { AnnotationEditor } from '../annotation-editor.tsx'
import type { Answer } from '../answer.ts'
import { ExperimentActions } from '../experiment-actions.tsx'
import { useApp } from '../section.tsx'

export function Annotations({ answer }: { answer: Answer }) {
  const app = useApp()
  const { experiment, trials, annotations, isWritable } = answer
  const annotation = annotations.get(experimentItself)
  return (
    <>
      <AnnotationEditor
        place={{ experimentId: experiment.id }}
        annotation={annotation}
        isWritable={isWritable}
        changed={(after) => app.setAnnotation(experimentItself, after)}
      />
      {isWritable && (
        <ExperimentActions
          id={experiment.id}
          trials={trials.length}
          archived={annotation?.archivedAt !== undefined}
          running={experiment.state === 'running'}
          onChanged={(change) => change === 'deleted' && location.assign('/experiments')}
          onProblem={(message) => app.setProblem(message)}
        />
      )}
    </>
  )
}
