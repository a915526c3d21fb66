/**
 * What a request of a server's own protocol is written as: JSON, a multipart form, or a body of
 * another type.
 */
import { extname } from 'node:path'
import type { ItemSource } from '../payload-source.ts'
import { PayloadError } from '../profiler-errors.ts'
import type { RequestBody } from '../types.ts'
import {
  defaultTemplate,
  formFault,
  knownHint,
  placeholder,
  templateFault,
} from './body-template.ts'
import { type Content, contentOf } from './content.ts'
import { poolSizes } from './items.ts'

/** As the user says it: `form`, or `template` with its content type. */
export interface RequestForm {
  /** With {{text}}, {{image}} and {{int}}, and lists of them. Default {"text": "{{text}}"}. */
  readonly template?: string
  /** Of the template, once filled in; default application/json. */
  readonly contentType?: string
  /** Fields of multipart/form-data: name → template; {{image}} alone is a file. */
  readonly form?: Readonly<Record<string, string>>
}

const jsonType = 'application/json'
const formUrlencoded = 'application/x-www-form-urlencoded'
/** Between the parts of a form; long enough to stand in none of them. */
const boundary = 'tune-8f2c1b7e9d4a4f0c8a6e5d3b1f7c9a2e'

/** Types of files that are requests as they are. */
const typesOfFiles: Readonly<Record<string, string>> = {
  '.jpg': 'image/jpeg',
  '.jpeg': 'image/jpeg',
  '.png': 'image/png',
  '.webp': 'image/webp',
  '.gif': 'image/gif',
  '.bmp': 'image/bmp',
  '.tiff': 'image/tiff',
  '.wav': 'audio/wav',
  '.mp3': 'audio/mpeg',
  '.flac': 'audio/flac',
  '.ogg': 'audio/ogg',
  '.mp4': 'video/mp4',
  '.pdf': 'application/pdf',
  '.npy': 'application/x-npy',
  '.pb': 'application/x-protobuf',
  '.bin': 'application/octet-stream',
}

/**
 * Of a file that is a request as it is, by its name; undefined for files that hold requests, texts
 * or nothing that is known.
 */
export const typeOfFile = (path: string): string | undefined =>
  typesOfFiles[extname(path).toLowerCase()]

/** Whether a body of the type is JSON. A missing type is. */
const isJsonType = (type = jsonType): boolean => /^application\/(.+\+)?json\b/i.test(type)

/** The type that requests of a form go out as. */
export const typeOf = ({ form, contentType }: RequestForm): string =>
  form === undefined ? (contentType ?? jsonType) : `multipart/form-data; boundary=${boundary}`

/** Everything that is filled in. */
export const templatesOf = ({
  form,
  template = defaultTemplate,
}: RequestForm): readonly string[] => (form === undefined ? [template] : Object.values(form))

/** What is wrong with a form, told by filling in an example; undefined where nothing is. */
export function requestFault(
  asked: RequestForm,
): { readonly what: string; readonly hint: string } | undefined {
  if (asked.form !== undefined) return formFault(asked.form)
  if (asked.template === undefined) return undefined
  return isJsonType(asked.contentType)
    ? templateFault(asked.template)
    : formFault({ body: asked.template })
}

/** The first request that a source makes. @throws PayloadError */
export async function exampleRequest(asked: RequestForm, source: ItemSource): Promise<RequestBody> {
  const content = await contentOf(source)
  const body = await filledRequest(asked, {
    content,
    items: poolSizes(source, content.available)[0]!,
    whole: () => 1,
  })
  return { contentType: typeOf(asked), body }
}

/** Filled with items; `list` for {{texts}} and the like, of which there are `items`. */
interface Filling {
  readonly content: Content
  readonly items: number
  readonly whole: () => number
}

/**
 * One request's bytes.
 * @throws PayloadError for other names than text, image and int, for several items where there is
 * no list, and for a result that is not JSON where it has to be
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

async function multipart(
  form: Readonly<Record<string, string>>,
  filling: Filling,
): Promise<Buffer> {
  const parts: (string | Buffer)[] = []
  for (const [name, template] of Object.entries(form)) {
    const disposition = `--${boundary}\r\nContent-Disposition: form-data; name="${name.replaceAll('"', '%22')}"`
    if (imageAlone.test(template)) {
      const image = await filling.content.image()
      const kind = image[0] === 0x89 ? 'png' : 'jpeg'
      parts.push(
        `${disposition}; filename="image.${kind === 'png' ? 'png' : 'jpg'}"\r\nContent-Type: image/${kind}\r\n\r\n`,
        image,
        '\r\n',
      )
    } else
      parts.push(`${disposition}\r\n\r\n${await filled(template, filling, (text) => text)}\r\n`)
  }
  return Buffer.concat([...parts, `--${boundary}--\r\n`].map((part) => Buffer.from(part as string)))
}

/** A template with its places filled. @param escaped a text as it stands there */
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
