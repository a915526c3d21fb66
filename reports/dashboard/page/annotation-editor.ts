/** Note and tags of an experiment or a trial: shown, and changed where the page may write. */
import type { Annotation, AnnotationChange } from '../../../trials/annotation.ts'
import { fill, h, tagOf } from './dom.ts'
import { annotate, type Place } from './source.ts'

export interface AnnotationEditor {
  readonly element: HTMLElement
  /** What stands there now. What is being written meanwhile stays. */
  show(annotation: Annotation | undefined): void
}

export function annotationEditor(place: Place, writable: boolean): AnnotationEditor {
  const what = place.trial === undefined ? 'the experiment' : `trial ${place.trial}`
  const tags = h('span', { class: 'tags' })
  const note = h('p', { class: 'written' })
  const problem = h('p', { class: 'problem', attributes: { role: 'alert' } })
  const newTag = h('input', {
    attributes: {
      placeholder: 'add a tag',
      'aria-label': `Add a tag to ${what}`,
      maxlength: 64,
      size: 12,
    },
    on: { keydown: (event) => event.key === 'Enter' && addTag() },
  })
  const text = h('textarea', {
    attributes: { rows: 3, 'aria-label': `Note on ${what}`, maxlength: 10_000 },
  })
  const edit = h(
    'button',
    { class: 'quiet link', attributes: { type: 'button' }, on: { click: () => write() } },
    'Note',
  )
  const save = h(
    'button',
    { attributes: { type: 'button' }, on: { click: () => void change({ note: text.value }) } },
    'Save',
  )
  const cancel = h(
    'button',
    { class: 'quiet', attributes: { type: 'button' }, on: { click: () => stopWriting() } },
    'Cancel',
  )
  const form = h('div', { class: 'note-form' }, text, save, cancel)
  const controls = h('span', {}, newTag, edit)
  let current: Annotation | undefined
  form.hidden = true
  problem.hidden = true
  const element = h(
    'div',
    { class: 'annotation' },
    h('div', { class: 'tag-line' }, tags, writable && controls),
    note,
    form,
    problem,
  )

  function addTag(): void {
    const tag = newTag.value.trim()
    if (tag === '') return
    newTag.value = ''
    void change({ addTags: [tag] })
  }
  function write(): void {
    text.value = current?.note ?? ''
    form.hidden = false
    text.focus()
  }
  function stopWriting(): void {
    form.hidden = true
    edit.focus()
  }
  async function change(asked: AnnotationChange): Promise<void> {
    problem.hidden = true
    try {
      const after = await annotate(place, asked)
      if (asked.note !== undefined) stopWriting()
      show(after)
    } catch (error) {
      problem.textContent = `Not saved: ${(error as Error).message}`
      problem.hidden = false
    }
  }
  function show(annotation: Annotation | undefined): void {
    if (current !== undefined && JSON.stringify(annotation) === JSON.stringify(current)) return
    current = annotation ?? { tags: [] }
    fill(
      tags,
      ...current.tags.map((tag) =>
        tagOf(
          tag,
          writable && {
            label: `Remove the tag ${tag}`,
            remove: () => void change({ removeTags: [tag] }),
          },
        ),
      ),
    )
    note.textContent = current.note ?? ''
    note.hidden = current.note === undefined
    edit.textContent = current.note === undefined ? 'Add a note' : 'Change the note'
    element.hidden = !writable && current.tags.length === 0 && current.note === undefined
  }
  show(undefined)
  return { element, show }
}
