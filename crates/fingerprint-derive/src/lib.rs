//! `#[derive(Fingerprint)]`: implements `keyprint_fingerprint::Encode`.
//!
//! The attributes are documented where the macro is re-exported, in `keyprint-fingerprint`.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::parse::Parse;
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{
    Attribute, Data, DeriveInput, Error, Field, Fields, GenericParam, LitStr, Path, Result, Token,
    parse_macro_input, parse_quote,
};

/// Derives `keyprint_fingerprint::Encode`.
#[proc_macro_derive(Fingerprint, attributes(fingerprint))]
pub fn derive(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    expand(input).unwrap_or_else(Error::into_compile_error).into()
}

fn expand(mut input: DeriveInput) -> Result<TokenStream> {
    let own = Options::read(&input.attrs)?;
    own.only(&["rename"], "a type")?;
    let class = Class::of(&input, own.rename.as_ref())?;
    let body = match &input.data {
        Data::Struct(data) => {
            let record = Record::of(&data.fields, "fields", &class, None)?;
            let pattern = record.pattern(quote!(Self));
            let write = record.write();
            quote!(match self { #pattern => #write })
        }
        Data::Enum(data) => {
            if data.variants.is_empty() {
                quote!(match *self {})
            } else {
                let arms = data.variants.iter().map(|variant| {
                    let options = Options::read(&variant.attrs)?;
                    options.only(&["rename"], "a variant")?;
                    let name = options.rename.map_or_else(|| variant.ident.to_string(), |name| name.value());
                    let record = Record::of(&variant.fields, "variant", &class, Some(name))?;
                    let ident = &variant.ident;
                    let pattern = record.pattern(quote!(Self::#ident));
                    let write = record.write();
                    Ok(quote!(#pattern => #write,))
                });
                let arms = arms.collect::<Result<Vec<_>>>()?;
                quote!(match self { #(#arms)* })
            }
        }
        Data::Union(data) => {
            return Err(Error::new(
                data.union_token.span(),
                "a union has no fingerprint: which field is alive is not known",
            ));
        }
    };
    for parameter in &mut input.generics.params {
        if let GenericParam::Type(parameter) = parameter {
            parameter.bounds.push(parse_quote!(::keyprint_fingerprint::Encode));
        }
    }
    let (impl_generics, type_generics, where_clause) = input.generics.split_for_impl();
    let name = &input.ident;
    Ok(quote! {
        #[automatically_derived]
        impl #impl_generics ::keyprint_fingerprint::Encode for #name #type_generics #where_clause {
            fn encode<'__a>(
                &'__a self,
                __slot: ::keyprint_fingerprint::Slot<'_, '__a>,
            ) -> ::keyprint_fingerprint::Written {
                #body
            }
        }
    })
}

/// The module and qualified name that a type counts under.
struct Class {
    module: TokenStream,
    qualname: String,
}

impl Class {
    fn of(input: &DeriveInput, rename: Option<&LitStr>) -> Result<Self> {
        let Some(rename) = rename else {
            return Ok(Self { module: quote!(::core::module_path!()), qualname: input.ident.to_string() });
        };
        let text = rename.value();
        match text.split_once(':') {
            Some((module, qualname)) if !module.is_empty() && !qualname.is_empty() => {
                Ok(Self { module: quote!(#module), qualname: qualname.to_owned() })
            }
            _ => Err(Error::new(
                rename.span(),
                "expected `module:Class`, as in `#[fingerprint(rename = \"package.module:Class\")]`",
            )),
        }
    }
}

/// The fields of a struct or variant.
struct Record {
    shape: TokenStream,
    bindings: Vec<(TokenStream, Option<Binding>)>,
}

struct Binding {
    variable: syn::Ident,
    with: Option<Path>,
}

impl Record {
    fn of(fields: &Fields, kind: &str, class: &Class, variant: Option<String>) -> Result<Self> {
        let mut names = Vec::new();
        let mut bindings = Vec::new();
        for (index, field) in fields.iter().enumerate() {
            let options = Options::read(&field.attrs)?;
            if options.skip && (options.rename.is_some() || options.with.is_some()) {
                return Err(Error::new(field.span(), "`skip` leaves nothing to `rename` or encode `with`"));
            }
            let member = member(field, index);
            if options.skip {
                bindings.push((member, None));
                continue;
            }
            let name = options.rename.map_or_else(|| member_name(field, index), |name| name.value());
            if names.contains(&name) {
                return Err(Error::new(field.span(), format!("two fields count under the name `{name}`")));
            }
            names.push(name);
            let variable = format_ident!("__field{index}");
            bindings.push((member, Some(Binding { variable, with: options.with })));
        }
        let Class { module, qualname } = class;
        let qualname = match variant {
            None => qualname.clone(),
            Some(variant) => format!("{qualname}.{variant}"),
        };
        let shape = quote!(::keyprint_fingerprint::Shape::of_kind(#kind, #module, #qualname, &[#(#names),*]));
        Ok(Self { shape, bindings })
    }

    fn pattern(&self, constructor: TokenStream) -> TokenStream {
        let fields = self.bindings.iter().map(|(member, binding)| match binding {
            Some(Binding { variable, .. }) => quote!(#member: #variable),
            None => quote!(#member: _),
        });
        quote!(#constructor { #(#fields),* })
    }

    fn write(&self) -> TokenStream {
        let shape = &self.shape;
        let children = self.bindings.iter().filter_map(|(_, binding)| binding.as_ref()).map(|binding| {
            let Binding { variable, with } = binding;
            match with {
                Some(path) => quote!(__fields.child_with(#variable, #path);),
                None => quote!(__fields.child(#variable);),
            }
        });
        quote! {{
            static __SHAPE: ::keyprint_fingerprint::Shape = #shape;
            __slot.record(&__SHAPE, |__fields| { let _ = &__fields; #(#children)* })
        }}
    }
}

fn member(field: &Field, index: usize) -> TokenStream {
    match &field.ident {
        Some(name) => quote!(#name),
        None => {
            let index = syn::Index::from(index);
            quote!(#index)
        }
    }
}

fn member_name(field: &Field, index: usize) -> String {
    use syn::ext::IdentExt;
    field.ident.as_ref().map_or_else(|| index.to_string(), |name| name.unraw().to_string())
}

/// The `#[fingerprint(...)]` attributes of one place.
#[derive(Default)]
struct Options {
    skip: bool,
    rename: Option<LitStr>,
    with: Option<Path>,
    given: Vec<syn::Ident>,
}

enum Given {
    Skip(syn::Ident),
    Rename(syn::Ident, LitStr),
    With(syn::Ident, Path),
}

impl Parse for Given {
    fn parse(input: syn::parse::ParseStream<'_>) -> Result<Self> {
        let name: syn::Ident = input.parse()?;
        match name.to_string().as_str() {
            "skip" => Ok(Self::Skip(name)),
            "rename" => {
                input.parse::<Token![=]>()?;
                Ok(Self::Rename(name, input.parse()?))
            }
            "with" => {
                input.parse::<Token![=]>()?;
                Ok(Self::With(name, input.parse()?))
            }
            _ => Err(Error::new(name.span(), "expected `skip`, `rename = \"...\"` or `with = path`")),
        }
    }
}

impl Options {
    fn read(attributes: &[Attribute]) -> Result<Self> {
        let mut options = Self::default();
        for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("fingerprint")) {
            let given = attribute.parse_args_with(Punctuated::<Given, Token![,]>::parse_terminated)?;
            for option in given {
                let name = match option {
                    Given::Skip(name) => {
                        options.skip = true;
                        name
                    }
                    Given::Rename(name, value) => {
                        options.rename = Some(value);
                        name
                    }
                    Given::With(name, value) => {
                        options.with = Some(value);
                        name
                    }
                };
                if options.given.contains(&name) {
                    return Err(Error::new(name.span(), format!("`{name}` is given twice")));
                }
                options.given.push(name);
            }
        }
        Ok(options)
    }

    fn only(&self, allowed: &[&str], place: &str) -> Result<()> {
        match self.given.iter().find(|name| !allowed.contains(&name.to_string().as_str())) {
            None => Ok(()),
            Some(name) => Err(Error::new(name.span(), format!("`{name}` does not apply to {place}"))),
        }
    }
}
