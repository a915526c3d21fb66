/** Shows note and tags of an experiment or a trial, and edits them if the page may write. */
import { useLayoutEffect, useRef, useState } from 'preact/hooks'
import type { Annotation, AnnotationChange } from '../../../trials/annotation.ts'
import { Tag } from './elements.tsx'
import { type AnnotationTarget, annotate } from './source.ts'

export function AnnotationEditor({
  place,
  annotation: { tags, note } = { tags: [] },
  isWritable,
  changed,
}: {
  place: AnnotationTarget
  annotation: Annotation | undefined
  isWritable: boolean
  /** Called with the annotation after a change. */
  changed(after: Annotation): void
}) {
  const [isWriting, setWriting] = useState(false)
  const [problem, setProblem] = useState('')
  const editButton = useRef<HTMLButtonElement>(null)
  const what = place.trial === undefined ? 'the experiment' : `trial ${place.trial}`

  function stopWriting(): void {
    setWriting(false)
    editButton.current?.focus()
  }
  async function change(requestedChange: AnnotationChange): Promise<void> {
    setProblem('')
    try {
      changed(await annotate(place, requestedChange))
      if (requestedChange.note !== undefined) stopWriting()
    } catch (error) {
      setProblem(`Not saved: ${(error as Error).message}`)
    }
  }
  function addTag(input: HTMLInputElement): void {
    const tag = input.value.trim()
    if (tag === '') return
    input.value = ''
    void change({ addTags: [tag] })
  }
  if (!isWritable && tags.length === 0 && note === undefined) return null
  return (
    <div class="annotation">
      <div class="tag-line">
        <span class="tags">
          {tags.map((tag) => (
            <Tag
              key={tag}
              text={tag}
              label={`Remove the tag ${tag}`}
              remove={isWritable && (() => void change({ removeTags: [tag] }))}
            />
          ))}
        </span>
        {isWritable && (
          <span>
            <input
              placeholder="add a tag"
              aria-label={`Add a tag to ${what}`}
              maxlength={64}
              size={12}
              onKeyDown={({ key, currentTarget }) => key === 'Enter' && addTag(currentTarget)}
            />
            <button
              ref={editButton}
              class="quiet link"
              type="button"
              onClick={() => setWriting(true)}
            >
              {note === undefined ? 'Add a note' : 'Change the note'}
            </button>
          </span>
        )}
      </div>
      {note !== undefined && <p class="written">{note}</p>}
      {isWriting && (
        <NoteForm
          what={what}
          note={note ?? ''}
          save={(text) => void change({ note: text })}
          cancel={stopWriting}
        />
      )}
      {problem !== '' && (
        <p class="problem" role="alert">
          {problem}
        </p>
      )}
    </div>
  )
}

function NoteForm({
  what,
  note,
  save,
  cancel,
}: {
  what: string
  note: string
  save(text: string): void
  cancel(): void
}) {
  const text = useRef<HTMLTextAreaElement>(null)
  useLayoutEffect(() => {
    text.current!.value = note
    text.current!.focus()
  }, [])
  return (
    <div class="note-form">
      <textarea ref={text} rows={3} aria-label={`Note on ${what}`} maxlength={10_000} />
      <button type="button" onClick={() => save(text.current!.value)}>
        Save
      </button>
      <button class="quiet" type="button" onClick={cancel}>
        Cancel
      </button>
    </div>
  )
}
