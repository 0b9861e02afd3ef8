// What is packed in the page (deflate, base64): the program, its data, and the script that draws plots.

async function unpacked(name) {
  const packed = Uint8Array.from(atob(document.getElementById(`packed-${name}`).textContent), (sign) => sign.charCodeAt(0));
  return new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate-raw"))).text();
}

/** Run a packed script, and give its text: the page's policy knows its hash. */
async function run(name) {
  const script = document.createElement("script");
  script.textContent = await unpacked(name);
  document.head.append(script);
  return script.textContent;
}
