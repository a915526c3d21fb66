/** Forms of custom requests: JSON, a multipart form, or a body of another type. */
import { hintOf, readBytes } from '../bounded-reader.ts'
import type { RequestBody } from '../model/target.ts'
import type { ItemSource } from '../payload-source.ts'
import { PayloadError } from '../profiler-errors.ts'
import {
  defaultTemplate,
  formFault,
  knownHint,
  placeholder,
  templateFault,
} from './body-template.ts'
import { type Content, contentOf } from './content.ts'
import { type FormFields, listFields, parseField } from './form-fields.ts'
import { poolSizes } from './items.ts'

/** Form configured by the user: `form`, or `template` with its content type. */
export interface RequestForm {
  /**
   * Template with {{text}}, {{image}} and {{int}}, and lists of them. Default {"text": "{{text}}"}.
   */
  readonly template?: string
  /** Content type of the filled template; default application/json. */
  readonly contentType?: string
  /** Fields of multipart/form-data in curl's syntax; {{image}} alone is a file. */
  readonly form?: FormFields
}

const jsonType = 'application/json'
const formUrlencoded = 'application/x-www-form-urlencoded'
/** Boundary between the parts of a form, long enough to occur in none of them. */
const boundary = 'tune-8f2c1b7e9d4a4f0c8a6e5d3b1f7c9a2e'

/** Whether a content type is JSON; a missing one is. */
const isJsonType = (type = jsonType): boolean => /^application\/(.+\+)?json\b/i.test(type)

/** Content type of requests of a form. */
export const typeOf = ({ form, contentType }: RequestForm): string =>
  form === undefined ? (contentType ?? jsonType) : `multipart/form-data; boundary=${boundary}`

/** All templates of a form. */
export const templatesOf = ({
  form,
  template = defaultTemplate,
}: RequestForm): readonly string[] =>
  form === undefined
    ? [template]
    : listFields(form).flatMap(([, text]) => {
        const { kind, content } = parseField(text)
        return kind === 'value' ? [content] : []
      })

/** Whether the form has no placeholders, so that all requests are the same. */
export const isConstant = (asked: RequestForm): boolean =>
  !templatesOf(asked).some((template) => template.search(placeholder) >= 0)

/** Describes what is wrong with a form, by filling in an example; undefined where nothing is. */
export function requestFault(
  asked: RequestForm,
): { readonly what: string; readonly hint: string } | undefined {
  try {
    if (asked.form !== undefined) return formFault(templatesOf(asked))
  } catch (error) {
    if (!(error instanceof PayloadError)) throw error
    return { what: error.message, hint: error.hint! }
  }
  if (asked.template === undefined) return undefined
  return isJsonType(asked.contentType) ? templateFault(asked.template) : formFault([asked.template])
}

/**
 * First request that a source makes.
 * @throws PayloadError
 */
export async function exampleRequest(asked: RequestForm, source: ItemSource): Promise<RequestBody> {
  const content = await contentOf(source)
  const body = await filledRequest(asked, {
    content,
    items: poolSizes(source, content.available)[0]!,
    whole: () => 1,
  })
  return { contentType: typeOf(asked), body }
}

/** Values of placeholders; `list` for {{texts}} and the like, of `items` elements. */
interface Filling {
  readonly content: Content
  readonly items: number
  readonly whole: () => number
}

/**
 * Bytes of one request.
 * @throws PayloadError for placeholders other than text, image and int, for several items without a
 * list, and for a result that should be JSON and is not
 */
export async function filledRequest(asked: RequestForm, filling: Filling): Promise<Buffer> {
  const { form, template = defaultTemplate, contentType } = asked
  if (filling.items > 1 && !templatesOf(asked).some((one) => /\{\{\s*\w+s\s*\}\}/.test(one)))
    throw new PayloadError(
      `the body template has one item, and requests have ${filling.items}`,
      'write a list: {"texts": {{texts}}}',
    )
  if (form !== undefined) return multipart(form, filling)
  if (!isJsonType(contentType)) return plainBody(template, contentType!, filling)
  const text = await filled(template, filling, withinQuotes)
  try {
    return Buffer.from(JSON.stringify(JSON.parse(text)))
  } catch (error) {
    throw new PayloadError(
      `the body template is not JSON once filled in: ${(error as Error).message}`,
      `for example ${defaultTemplate}`,
    )
  }
}

const withinQuotes = (text: string): string => JSON.stringify(text).slice(1, -1)
const imageAlone = /^\s*\{\{\s*image\s*\}\}\s*$/

async function plainBody(template: string, type: string, filling: Filling): Promise<Buffer> {
  if (imageAlone.test(template)) return filling.content.image()
  const encoded = type.startsWith(formUrlencoded)
  return Buffer.from(await filled(template, filling, encoded ? encodeURIComponent : (text) => text))
}

async function multipart(form: FormFields, filling: Filling): Promise<Buffer> {
  const parts: Buffer[] = []
  for (const [name, text] of listFields(form)) {
    const { bytes, type, filename } = await partOf(text, filling)
    const file = filename === undefined ? '' : `; filename="${headerText(filename)}"`
    parts.push(
      Buffer.from(
        `--${boundary}\r\nContent-Disposition: form-data; name="${headerText(name)}"${file}\r\n`,
      ),
      Buffer.from(`${type === undefined ? '' : `Content-Type: ${type}\r\n`}\r\n`),
      bytes,
      Buffer.from('\r\n'),
    )
  }
  return Buffer.concat([...parts, Buffer.from(`--${boundary}--\r\n`)])
}

/** Escaped as browsers do. */
const headerText = (text: string): string =>
  text.replaceAll('"', '%22').replaceAll('\r', '%0D').replaceAll('\n', '%0A')

async function partOf(
  text: string,
  filling: Filling,
): Promise<{ readonly bytes: Buffer; readonly type?: string; readonly filename?: string }> {
  const { kind, content, ...said } = parseField(text)
  if (kind !== 'value') return { bytes: readField(content), ...said }
  if (!imageAlone.test(content))
    return { bytes: Buffer.from(await filled(content, filling, (value) => value)), ...said }
  const bytes = await filling.content.image()
  const type = bytes[0] === 0x89 ? 'image/png' : 'image/jpeg'
  return { bytes, type, filename: type === 'image/png' ? 'image.png' : 'image.jpg', ...said }
}

/** @throws PayloadError for an unreadable file */
function readField(path: string): Buffer {
  try {
    return readBytes(path, 'data')
  } catch (error) {
    throw new PayloadError(
      `the form's file ${path} cannot be read: ${(error as Error).message}`,
      hintOf(error),
    )
  }
}

/**
 * Fills the placeholders of a template.
 * @param escaped escapes a text for its position
 */
async function filled(
  template: string,
  { content, items, whole }: Filling,
  escaped: (text: string) => string,
): Promise<string> {
  const value = async (name: string): Promise<string> => {
    if (name === 'text') return escaped(content.text())
    if (name === 'image') return (await content.image()).toString('base64')
    if (name === 'int') return String(whole())
    throw new PayloadError(`the body template asks for {{${name}}}`, knownHint)
  }
  let text = ''
  let end = 0
  for (const match of template.matchAll(placeholder)) {
    const [place, name = ''] = match
    const one = name.replace(/s$/, '')
    text += template.slice(end, match.index)
    if (one === name) text += await value(name)
    else {
      const values: string[] = []
      for (let i = 0; i < items; i++) values.push(await value(one))
      text += `[${values.map((each) => (one === 'int' ? each : `"${each}"`)).join(', ')}]`
    }
    end = match.index + place.length
  }
  return text + template.slice(end)
}
