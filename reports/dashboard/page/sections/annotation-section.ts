/** What people wrote beside the experiment, and the ways to put it away or to delete it. */
import { experimentItself } from '../../../../trials/annotation.ts'
import { type AnnotationEditor, annotationEditor } from '../annotation-editor.ts'
import type { App } from '../app.ts'
import { fill, h } from '../dom.ts'
import { experimentActions } from '../experiment-actions.ts'
import type { Section } from '../section.ts'

/** @param problem says what could not be done */
export function annotationSection(app: App, problem: (message: string) => void): Section {
  const element = h('section', { class: 'beside', attributes: { 'aria-label': 'Note and tags' } })
  let editor: AnnotationEditor | undefined
  let drawn = ''
  return {
    element,
    update({ experiment: { id, state }, trials, annotations }) {
      const annotation = annotations.get(experimentItself)
      const archived = annotation?.archivedAt !== undefined
      const key = `${app.writable} ${archived} ${state} ${trials.length}`
      if (key !== drawn) {
        drawn = key
        editor ??= annotationEditor({ experimentId: id }, app.writable)
        const subject = { id, trials: trials.length, archived, running: state === 'running' }
        const done = (change: string) => change === 'deleted' && location.assign('/experiments')
        fill(element, editor.element, app.writable && experimentActions(subject, done, problem))
      }
      editor?.show(annotation)
      element.hidden = !app.writable && editor?.element.hidden === true
    },
  }
}
